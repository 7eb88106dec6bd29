// propose_windows: of the trees that a query's windows make, the one behind its last token.
//
// A query's windows (text/windows.h) depend on its source and at most on the last token, so the
// host makes their trees when the query starts: row q of `trees` holds the number of trees, then
// for each (last token, first node, nodes), then token ids and parents of all nodes, pairwise. A
// last token of -1 stands for every one.

#pragma once

#include "ops/greedy_rows.h"

namespace molspec {

struct ProposeWindowsProblem {
  GreedyAnswers answers;
  DraftRows drafts;      // written: rows of live queries
  const int32_t* trees;  // [query, tree_stride]
  int64_t tree_stride;
  int32_t bos_id;
};

ProposeWindowsProblem propose_windows_check(const Tensor& answers, const Tensor& drafts,
                                            const Tensor& trees, int64_t bos_id);

}  // namespace molspec
