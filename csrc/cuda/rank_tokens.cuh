// rank_tokens on the GPU: a warp a node.

#pragma once

#include "cuda/beam_rows.h"
#include "cuda/likeliest.cuh"

namespace molspec::cuda {

constexpr int kRankThreads = 128;

// Lane 0 writes what all lanes find, token by token.
inline __global__ void rank_tokens_kernel(RankTokensProblem problem) {
  const int64_t index = blockIdx.x * (kRankThreads / kWarp) + warp_index();
  if (index >= problem.node_count || problem.nodes[index].memory == kAbsent) return;
  const Node& node = problem.nodes[index];
  const int64_t slot = problem.path_slots[node.path_begin + node.position];
  const float* row = problem.log_probs + index * problem.vocab_size;
  LikelyToken token = likeliest(row, problem.vocab_size);
  if (!isfinite(token.log_prob)) token = {-INFINITY, LikelyToken::kNone};
  for (int64_t i = slot * problem.count;; ++i) {
    if (lane_index() == 0) {
      problem.best_ids[i] = token.token_id == LikelyToken::kNone ? kNoToken : token.token_id;
      problem.best_log_probs[i] = token.log_prob;
    }
    if (i + 1 == (slot + 1) * problem.count) return;
    token = likeliest_behind(token, row, problem.vocab_size);
  }
}

}  // namespace molspec::cuda
