// Staged trees as calls of a decoder that knows no trees: dense batches, a row for every leaf.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/token_tree.h"

namespace molspec {

struct RowsOptions {
  int64_t pad_id;
  int64_t call_cost;    // of a call, in padded columns
  bool caches = false;  // columns that earlier steps evaluated are left out if all rows have them
  bool pads_left = false;
};

// One call. Its columns begin at `first`; the columns before are in the cache.
struct RowsCall {
  int64_t first = 0, width = 0;
  std::vector<int64_t> token_ids;     // [row, width], padded
  std::vector<int64_t> cached_slots;  // [row, first]
  std::vector<int64_t> memories;      // [row]: the row of its query
  std::vector<int64_t> paddings;      // [row]: columns of padding on its left
  // Of each staged node that the call evaluates: its index among them, slot, row and column.
  std::vector<int64_t> nodes, slots, rows, columns;
};

// Knows the tokens of nodes that earlier steps evaluated.
class TokenRows {
 public:
  // Paths from BOS to the leaves of a staged tree. Rows that differ much are cheaper in two calls
  // than padded to one. Throws std::invalid_argument for a path beyond path_slots.
  std::vector<RowsCall> calls(const TokenTree::StagedNode* nodes, size_t node_count,
                              const int32_t* path_slots, size_t path_count,
                              const RowsOptions& options);

 private:
  struct Leaf {
    const int32_t* slots;  // of its path
    int64_t length, first, memory;
  };
  RowsCall call(const std::vector<Leaf>& leaves, const std::vector<size_t>& group,
                const RowsOptions& options) const;

  std::vector<int32_t> token_ids_;  // by slot
};

}  // namespace molspec
