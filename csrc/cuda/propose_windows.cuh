// propose_windows on the GPU: a warp a query.

#pragma once

#include "cuda/greedy_rows.h"
#include "cuda/window_tree.cuh"

namespace molspec::cuda {

// Lanes stride over the nodes of the tree.
inline __global__ void propose_windows_kernel(ProposeWindowsProblem problem) {
  const int query = blockIdx.x, lane = lane_index();
  if (problem.answers.head(query).state != GreedyAnswer::kLive) return;
  const WindowTree tree =
      window_tree(problem.windows, query, problem.answers.last_token(query, problem.bos_id),
                  problem.drafts.limit);
  for (int32_t i = lane; i < tree.count; i += kWarp) {
    problem.drafts.token_ids(query)[i] = tree.token_id(i);
    problem.drafts.parents(query)[i] = tree.parent(i);
  }
  if (lane == 0) problem.drafts.count(query) = tree.count;
}

}  // namespace molspec::cuda
