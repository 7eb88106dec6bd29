// The trees that the windows of a query make, for a device to pick from. They depend on the source
// and at most on the last token (drafting/windows.h), so the host makes them when the query starts:
// row q holds the number of trees, then for each (last token, first node, nodes), then token ids
// and parents of all nodes, pairwise. A last token of -1 stands for every one, a parent of -1 is
// it.

#pragma once

#include "common/anywhere.h"
#include "ops/refuse.h"

namespace molspec {

struct WindowRows {
  const int32_t* data;  // [query, stride]
  int64_t stride;

  MOLSPEC_ANYWHERE const int32_t* row(int64_t query) const { return data + query * stride; }
};

WindowRows window_rows_check(const Tensor& windows, int64_t query_count);

}  // namespace molspec
