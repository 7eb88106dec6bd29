#include "cuda/launch.h"
#include "cuda/rounds/likeliest.cuh"
#include "cuda/rounds/place_nodes.cuh"
#include "cuda/rounds/replay_beams.cuh"

namespace molspec::cuda {

inline __device__ int32_t node_count_of(const StageBeamsProblem& problem, int query) {
  const BeamAnswer& answer = problem.rows.answers.head(query);
  return answer.state == BeamAnswer::kLive ? answer.planned_count : 0;
}

// A block a query: threads stride over the planned nodes of their query.
inline __global__ void stage_beams_kernel(StageBeamsProblem problem) {
  await_previous();
  const int query = blockIdx.x;
  const BeamTrees& trees = problem.rows.trees;
  BeamAnswer& answer = problem.rows.answers.head(query);
  if (answer.state == BeamAnswer::kLive) begin_tree(problem.rows, query, problem.bos_id);
  const int32_t first =
      place_nodes(problem.nodes, problem.node_count, problem.rows.answers.query_count,
                  [&](int other) { return node_count_of(problem, other); });
  if (threadIdx.x == 0) answer.first_node = first;
  if (first == BeamAnswer::kNotStaged) return;
  if (threadIdx.x == 0) {
    ++answer.steps;
    answer.nodes += answer.planned_count;
  }
  for (int32_t i = threadIdx.x; i < answer.planned_count; i += blockDim.x) {
    const int32_t index = trees.plan(query)[i];
    const BeamNode& node = trees.tree(query)[index];
    problem.nodes[first + i] = {node.token_id, node.position,
                                static_cast<int32_t>(trees.path_begin(query, index)), query};
  }
}

void stage_beams(const StageBeamsProblem& problem, cudaStream_t stream) {
  launch("stage_beams", stage_beams_kernel, problem.rows.answers.query_count, kStageThreads, stream,
         problem);
}

constexpr int kRankThreads = 128;

// A warp a node: all lanes find each token, and lane 0 writes it.
inline __global__ void rank_tokens_kernel(RankTokensProblem problem) {
  await_previous();
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
    token = likeliest_after(token, row, problem.vocab_size);
  }
}

void rank_tokens(const RankTokensProblem& problem, cudaStream_t stream) {
  constexpr int kNodes = kRankThreads / kWarp;
  launch("rank_tokens", rank_tokens_kernel, (problem.node_count + kNodes - 1) / kNodes,
         kRankThreads, stream, problem);
}

void replay_beams(const ReplayBeamsProblem& problem, cudaStream_t stream) {
  launch("replay_beams", replay_beams_kernel, problem.rows.answers.query_count, kBeamThreads,
         stream, problem);
}

}  // namespace molspec::cuda
