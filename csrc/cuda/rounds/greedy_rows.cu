#include "cuda/launch.h"
#include "cuda/rounds/allot_nodes.cuh"
#include "cuda/rounds/likeliest.cuh"
#include "cuda/rounds/propose_tree.cuh"
#include "rules/accept.h"
#include "text/symbol_table.h"

namespace molspec::cuda {

void propose_tree(const ProposeTreeProblem& problem, cudaStream_t stream) {
  launch("propose_tree", propose_tree_kernel, problem.answers.query_count, kTreeThreads, stream,
         problem);
}

// ------------------------------------------------------------------ stage_nodes: a block a query

inline __device__ int32_t node_count_of(const StageNodesProblem& problem, int query) {
  const bool live = problem.answers.head(query).state == GreedyAnswer::kLive;
  return live ? 1 + problem.drafts.count(query) : 0;
}

constexpr int kMostNodes = 1 + static_cast<int>(kMostTreeNodes);  // of a query

// Shared by the threads of a query's nodes. Node 0 is the last token, node i is draft i - 1.
struct StagedQuery {
  const StageNodesProblem& problem;
  int query;
  int32_t first;           // its first node
  int32_t position;        // of node 0
  const int32_t* parents;  // of the drafts
  const int32_t* slots;    // of the nodes

  __device__ int32_t parent(int32_t node) const { return parents[node - 1] + 1; }
  __device__ int32_t* path(int32_t node) const {
    return problem.path_slots + (first + node) * problem.answers.capacity;
  }

  // Writes a node and the part of its path that not all nodes share. Returns whether it is a node
  // and not a gap.
  __device__ bool stage(int32_t node) const {
    int32_t at = position;
    for (int32_t n = node; n > 0; n = parent(n)) ++at;
    if (at >= problem.answers.max_length(query)) {
      problem.nodes[first + node] = {0, 0, 0, kAbsent};
      return false;
    }
    const int32_t token = node ? problem.drafts.token_ids(query)[node - 1]
                               : problem.answers.last_token(query, problem.bos_id);
    const auto begin = static_cast<int32_t>((first + node) * problem.answers.capacity);
    problem.nodes[first + node] = {token, at, begin, query};
    for (int32_t n = node; n > 0; n = parent(n)) path(node)[at--] = slots[n];
    path(node)[at] = slots[0];
    return true;
  }
};

// A thread a node of the query. Counts are sums of integers, so they do not depend on the order of
// the threads. Each node's path is followed upwards, one load after the other: in shared memory.
inline __global__ void stage_nodes_kernel(StageNodesProblem problem) {
  await_previous();
  const int query = blockIdx.x;
  GreedyAnswer& answer = problem.answers.head(query);
  const int32_t count = node_count_of(problem, query);
  const int32_t* slots = problem.slots.row(query);
  const auto node = static_cast<int32_t>(threadIdx.x);
  __shared__ int32_t parents[kMostNodes], free[kMostNodes];
  if (node < count) {
    free[node] = slots[answer.token_count + node];
    if (node + 1 < count) parents[node] = problem.drafts.parents(query)[node];
  }
  const int32_t first = allot_nodes(problem.nodes, problem.node_count, problem.answers.query_count,
                                    [&](int other) { return node_count_of(problem, other); });
  if (threadIdx.x == 0) answer.first_node = first;
  if (first != GreedyAnswer::kNotStaged) {
    const StagedQuery staged{problem, query, first, answer.token_count, parents, free};
    if (node < count && staged.stage(node)) {
      atomicAdd(&answer.nodes, 1);
      atomicAdd(node ? &answer.drafted_tokens : &answer.steps, 1);
    }
    for (int32_t i = threadIdx.x; i < count * staged.position; i += blockDim.x)
      staged.path(i / staged.position)[i % staged.position] = slots[i % staged.position];
  }
}

void stage_nodes(const StageNodesProblem& problem, cudaStream_t stream) {
  launch("stage_nodes", stage_nodes_kernel, problem.answers.query_count, kStageThreads, stream,
         problem);
}

// ----------------------------------------------------------------- verify_nodes: a block a query
// Its warps find the argmax of all nodes at once, then one follows the path.

constexpr int kVerifyThreads = 512;

struct Draft {
  int32_t parent, token_id;  // SymbolTable::kNoToken: no draft
};

// The team of rules/accept.h: a warp. All lanes find each value, and lane 0 writes it.
struct VerifyTeam {
  const VerifyNodesProblem& problem;
  const int query;
  const int64_t first_node;
  int32_t* token_ids;
  int32_t* slots;     // after the path
  LikelyToken* best;  // [kMostNodes], shared
  const int32_t count = problem.drafts.count(query);
  const Draft own = draft(lane_index());

  // For all warps; the block must synchronise before one follows the path.
  __device__ void look() const {
    for (int32_t node = warp_index(); node <= count; node += kVerifyThreads / kWarp) {
      const float* row = problem.log_probs + (first_node + node) * problem.vocab_size;
      const LikelyToken token = cuda::likeliest(row, problem.vocab_size);
      if (lane_index() == 0) best[node] = token;
    }
  }
  __device__ LikelyToken next(int32_t node) const { return best[node]; }
  // Node i is the draft of lane i - 1.
  __device__ int32_t drafted(int32_t node, int32_t token_id) const {
    static_assert(kLastToken == 0 && kMostTreeNodes <= kWarp);
    return __ffs(
        static_cast<int>(__ballot_sync(~0U, own.parent + 1 == node && own.token_id == token_id)));
  }
  __device__ Draft draft(int32_t i) const {
    if (i >= count) return {-1, SymbolTable::kNoToken};
    return {problem.drafts.parents(query)[i], problem.drafts.token_ids(query)[i]};
  }
  // The node's slot joins the path; the slot that it replaces is not on the path, as nodes only
  // grow.
  __device__ void keep(int32_t node, int32_t count) const {
    if (lane_index() != 0 || node == count) return;
    const int32_t slot = slots[node];
    slots[node] = slots[count];
    slots[count] = slot;
  }
  __device__ void write(int32_t index, int32_t token_id) const {
    if (lane_index() == 0) token_ids[index] = token_id;
  }
};

// The answer is assembled in registers, since every lane reads it and one writes it.
inline __global__ void verify_nodes_kernel(VerifyNodesProblem problem) {
  await_previous();
  const int query = blockIdx.x;
  GreedyAnswer answer = problem.answers.head(query);
  if (answer.state != GreedyAnswer::kLive || answer.first_node < 0) return;
  __shared__ LikelyToken best[kMostNodes];
  const VerifyTeam team{problem,
                        query,
                        answer.first_node,
                        problem.answers.token_ids(query),
                        problem.slots.row(query) + answer.token_count,
                        best};
  const Stop stop{problem.eos_id, problem.answers.max_length(query)};
  team.look();
  __syncthreads();  // all have read the answer too
  if (warp_index() != 0) return;
  const Verdict verdict = accept(team, stop, answer);
  if (verdict == Verdict::kDone) answer.state = GreedyAnswer::kDone;
  if (verdict == Verdict::kNoNumbers) answer.state = GreedyAnswer::kNoNumbers;
  if (lane_index() == 0) problem.answers.head(query) = answer;
}

void verify_nodes(const VerifyNodesProblem& problem, cudaStream_t stream) {
  launch("verify_nodes", verify_nodes_kernel, problem.answers.query_count, kVerifyThreads, stream,
         problem);
}

}  // namespace molspec::cuda
