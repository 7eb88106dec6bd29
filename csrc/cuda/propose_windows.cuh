// propose_windows on the GPU: a warp a query.

#pragma once

#include "cuda/kernels.h"
#include "cuda/warp.cuh"

namespace molspec::cuda {

// Lanes stride over the query's trees, then over the nodes of the one that fits. A tree that lies
// outside of its row or has more nodes than there is room for is none.
inline __global__ void propose_windows_kernel(ProposeWindowsProblem problem) {
  const int query = blockIdx.x, lane = lane_index();
  if (problem.answers.head(query).state != GreedyAnswer::kLive) return;
  const int32_t last_token = problem.answers.last_token(query, problem.bos_id);
  const int32_t* trees = problem.trees + query * problem.tree_stride;
  const int32_t tree_count = min(trees[0], static_cast<int32_t>(problem.tree_stride - 1) / 3);
  const int32_t* nodes = trees + 1 + 3 * tree_count;
  const int64_t room = (problem.tree_stride - 1 - 3 * tree_count) / 2;
  int32_t first = 0, count = 0;
  for (int32_t begin = 0; begin < tree_count; begin += kWarp) {
    const int32_t* tree = trees + 1 + 3 * min(begin + lane, tree_count - 1);
    const bool fits = begin + lane < tree_count && (tree[0] == last_token || tree[0] < 0);
    const unsigned found = __ballot_sync(~0U, fits);
    if (!found) continue;
    const int from = __ffs(static_cast<int>(found)) - 1;
    first = __shfl_sync(~0U, tree[1], from);
    count = __shfl_sync(~0U, tree[2], from);
    break;
  }
  if (first < 0 || count > problem.drafts.limit || first + count > room) count = 0;
  for (int32_t i = lane; i < count; i += kWarp) {
    problem.drafts.token_ids(query)[i] = nodes[2 * (first + i)];
    problem.drafts.parents(query)[i] = nodes[2 * (first + i) + 1];
  }
  if (lane == 0) problem.drafts.count(query) = count;
}

}  // namespace molspec::cuda
