// verify_nodes on the GPU: a block a query. Its warps look at all nodes at once, then one follows
// the path.

#pragma once

#include "cuda/greedy_rows.h"
#include "cuda/likeliest.cuh"
#include "rules/argmax.h"
#include "text/symbol_table.h"

namespace molspec::cuda {

constexpr int kVerifyThreads = 512;
// Of a query; those after are looked at when the path comes to them.
constexpr int kMostVerified = 256;

struct Draft {
  int32_t parent, token_id;  // SymbolTable::kNoToken: there is none
};

// rules/argmax.h: a warp. Lane 0 writes what all lanes find.
struct VerifyTeam {
  const VerifyNodesProblem& problem;
  const int query;
  const int64_t first_node;
  int32_t* token_ids;
  int32_t* slots;     // after the path
  LikelyToken* best;  // [kMostVerified], shared
  const int32_t count = problem.drafts.count(query);
  const Draft own = draft(lane_index());

  // All warps; the block must meet before the path is followed.
  __device__ void look() const {
    const int32_t most = min(1 + count, kMostVerified);
    for (int32_t node = warp_index(); node < most; node += kVerifyThreads / kWarp) {
      const LikelyToken token = look_at(node);
      if (lane_index() == 0) best[node] = token;
    }
  }
  __device__ LikelyToken likeliest(int32_t node) const {
    return node < kMostVerified ? best[node] : look_further(node);
  }
  // Called, for it is seldom: beside the usual way it would be most of the code.
  __device__ __noinline__ LikelyToken look_further(int32_t node) const { return look_at(node); }
  __device__ LikelyToken look_at(int32_t node) const {
    const float* row = problem.log_probs + (first_node + node) * problem.vocab_size;
    return cuda::likeliest(row, problem.vocab_size);
  }
  // The lanes' own drafts first, which are there already.
  __device__ int32_t drafted(int32_t node, int32_t token_id) const {
    int32_t begin = 0;
    for (Draft mine = own;; mine = draft(begin + lane_index())) {
      const unsigned found =
          __ballot_sync(~0U, mine.parent + 1 == node && mine.token_id == token_id);
      if (found) return begin + __ffs(static_cast<int>(found));
      begin += kWarp;
      if (begin >= count) return kLastToken;
    }
  }
  __device__ Draft draft(int32_t i) const {
    if (i >= count) return {-1, SymbolTable::kNoToken};
    return {problem.drafts.parents(query)[i], problem.drafts.token_ids(query)[i]};
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
  __shared__ LikelyToken best[kMostVerified];
  const VerifyTeam team{problem,
                        query,
                        answer.first_node,
                        problem.answers.token_ids(query),
                        problem.slots.row(query) + answer.token_count,
                        best};
  const int32_t max_length = problem.answers.max_length(query);
  team.look();
  __syncthreads();  // all have read the answer, too
  if (warp_index() != 0) return;
  const Verdict verdict = accept_argmax(team, problem.eos_id, max_length, answer);
  if (verdict == Verdict::kDone) answer.state = GreedyAnswer::kDone;
  if (verdict == Verdict::kNoNumbers) answer.state = GreedyAnswer::kNoNumbers;
  if (lane_index() == 0) problem.answers.head(query) = answer;
}

}  // namespace molspec::cuda
