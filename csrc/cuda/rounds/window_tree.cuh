// Finds the window tree of a last token, by a warp.

#pragma once

#include "cuda/rounds/rounds.h"
#include "cuda/warp.cuh"

namespace molspec::cuda {

struct WindowTree {
  const int32_t* nodes;  // token ids and parents, pairwise
  int32_t count;

  __device__ int32_t token_id(int32_t node) const { return nodes[2 * node]; }
  __device__ int32_t parent(int32_t node) const { return nodes[2 * node + 1]; }
  // The depth of a node; the last token has 0.
  __device__ int32_t depth(int32_t node) const {
    int32_t depth = 0;
    for (; node >= 0; node = parent(node)) ++depth;
    return depth;
  }
};

// All lanes must call, and all get the same. A tree that exceeds its row or `limit` nodes counts as
// empty.
inline __device__ WindowTree window_tree(const WindowRows& windows, int64_t query,
                                         int32_t last_token, int64_t limit) {
  const int32_t* row = windows.row(query);
  const int32_t tree_count = min(row[0], static_cast<int32_t>(windows.stride - 1) / 3);
  const int32_t* nodes = row + 1 + 3 * tree_count;
  const int64_t room = (windows.stride - 1 - 3 * tree_count) / 2;
  for (int32_t begin = 0; begin < tree_count; begin += kWarp) {
    const int32_t* tree = row + 1 + 3 * min(begin + lane_index(), tree_count - 1);
    const bool fits = begin + lane_index() < tree_count && (tree[0] == last_token || tree[0] < 0);
    const unsigned found = __ballot_sync(~0U, fits);
    if (!found) continue;
    const int from = __ffs(static_cast<int>(found)) - 1;
    const int32_t first = __shfl_sync(~0U, tree[1], from);
    const int32_t count = __shfl_sync(~0U, tree[2], from);
    if (first < 0 || count > limit || first + count > room) break;
    return {nodes + 2 * int64_t{first}, count};
  }
  return {nodes, 0};
}

}  // namespace molspec::cuda
