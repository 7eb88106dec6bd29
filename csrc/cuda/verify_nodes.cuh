// verify_nodes on the GPU: a warp a query.

#pragma once

#include "cuda/kernels.h"
#include "cuda/likeliest.cuh"

namespace molspec::cuda {

// The draft of a token behind `node`, as a node of the step, or 0 where there is none.
inline __device__ int32_t drafted(const DraftRows& drafts, int query, int32_t node,
                                  int32_t token_id) {
  const int32_t count = drafts.count(query);
  for (int32_t begin = 0; begin < count; begin += kWarp) {
    const int32_t i = begin + lane_index();
    const bool is =
        i < count && drafts.parents(query)[i] + 1 == node && drafts.token_ids(query)[i] == token_id;
    const unsigned found = __ballot_sync(~0U, is);
    if (found) return begin + __ffs(static_cast<int>(found));
  }
  return 0;
}

// All lanes follow the path; lane 0 writes. The answer is put together in registers, as every lane
// reads it and one writes it.
inline __global__ void verify_nodes_kernel(VerifyNodesProblem problem) {
  const int query = blockIdx.x;
  GreedyAnswer answer = problem.answers.head(query);
  if (answer.state != GreedyAnswer::kLive || answer.first_node < 0) return;
  __syncwarp();  // all have read what lane 0 will write
  const bool writes = lane_index() == 0;
  int32_t* token_ids = problem.answers.token_ids(query);
  int32_t* slots = problem.slots.row(query) + answer.token_count;
  int32_t node = 0, accepted = 0;
  while (answer.state == GreedyAnswer::kLive) {
    const int64_t row = answer.first_node + node;
    const LikelyToken best =
        likeliest(problem.log_probs + row * problem.vocab_size, problem.vocab_size);
    if (!isfinite(best.log_prob)) {
      answer.state = GreedyAnswer::kNoNumbers;
      break;
    }
    // The node keeps its slot: what stands there has not been kept, as nodes only grow.
    if (writes && node != accepted) {
      const int32_t slot = slots[node];
      slots[node] = slots[accepted];
      slots[accepted] = slot;
    }
    answer.log_prob += best.log_prob;
    ++answer.emitted_tokens;
    if (best.token_id == problem.eos_id) {
      answer.finished = 1;
      answer.state = GreedyAnswer::kDone;
      break;
    }
    if (writes) token_ids[answer.token_count] = best.token_id;
    ++answer.token_count;
    if (answer.emitted_tokens >= problem.answers.max_length(query))
      answer.state = GreedyAnswer::kDone;
    node = drafted(problem.drafts, query, node, best.token_id);
    if (answer.state != GreedyAnswer::kLive || node == 0) break;
    ++accepted;
    ++answer.accepted_tokens;
  }
  if (writes) problem.answers.head(query) = answer;
}

}  // namespace molspec::cuda
