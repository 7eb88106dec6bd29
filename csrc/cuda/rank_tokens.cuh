// rank_tokens on the GPU: a warp a node.

#pragma once

#include "cuda/kernels.h"
#include "cuda/likeliest.cuh"

namespace molspec::cuda {

constexpr int kRankThreads = 128;

// Lane 0 writes what all lanes find, token by token.
inline __global__ void rank_tokens_kernel(RankTokensProblem problem) {
  const int64_t node = blockIdx.x * (kRankThreads / kWarp) + warp_index();
  if (node >= problem.node_count || problem.nodes[node].memory == kAbsent) return;
  const float* row = problem.log_probs + node * problem.vocab_size;
  LikelyToken token = likeliest(row, problem.vocab_size);
  for (int64_t i = node * problem.count;; ++i) {
    if (lane_index() == 0) {
      problem.best_ids[i] = token.token_id == LikelyToken::kNone ? kNoToken : token.token_id;
      problem.best_log_probs[i] = token.log_prob;
    }
    if (i + 1 == (node + 1) * problem.count) return;
    token = likeliest_behind(token, row, problem.vocab_size);
  }
}

}  // namespace molspec::cuda
