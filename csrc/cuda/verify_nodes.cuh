// verify_nodes on the GPU: a warp a query.

#pragma once

#include "cuda/kernels.h"
#include "cuda/likeliest.cuh"
#include "rules/argmax.h"

namespace molspec::cuda {

// The draft of a token behind `node`, as a node of the step, or kLastToken where there is
// none.
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
  return kLastToken;
}

// rules/argmax.h: a warp. Lane 0 writes what all lanes find.
struct VerifyTeam {
  const VerifyNodesProblem& problem;
  const int query;
  const int64_t first_node;
  int32_t* token_ids;
  int32_t* slots;  // behind the path

  __device__ LikelyToken likeliest(int32_t node) const {
    const float* row = problem.log_probs + (first_node + node) * problem.vocab_size;
    return cuda::likeliest(row, problem.vocab_size);
  }
  __device__ int32_t drafted(int32_t node, int32_t token_id) const {
    return cuda::drafted(problem.drafts, query, node, token_id);
  }
  // The node keeps its slot: what stands there has not been kept, as nodes only grow.
  __device__ void keep(int32_t node, int32_t count) const {
    if (lane_index() != 0 || node == count) return;
    const int32_t slot = slots[node];
    slots[node] = slots[count];
    slots[count] = slot;
  }
  __device__ void write(int32_t place, int32_t token_id) const {
    if (lane_index() == 0) token_ids[place] = token_id;
  }
};

// The answer is put together in registers, as every lane reads it and one writes it.
inline __global__ void verify_nodes_kernel(VerifyNodesProblem problem) {
  const int query = blockIdx.x;
  GreedyAnswer answer = problem.answers.head(query);
  if (answer.state != GreedyAnswer::kLive || answer.first_node < 0) return;
  __syncwarp();  // all have read what lane 0 will write
  const VerifyTeam team{problem, query, answer.first_node, problem.answers.token_ids(query),
                        problem.slots.row(query) + answer.token_count};
  const Verdict verdict =
      accept_argmax(team, problem.eos_id, problem.answers.max_length(query), answer);
  if (verdict == Verdict::kDone) answer.state = GreedyAnswer::kDone;
  if (verdict == Verdict::kNoNumbers) answer.state = GreedyAnswer::kNoNumbers;
  if (lane_index() == 0) problem.answers.head(query) = answer;
}

}  // namespace molspec::cuda
