#include "cuda/launch.h"
#include "cuda/rounds/allot_nodes.cuh"
#include "cuda/rounds/beam_rows.h"
#include "cuda/rounds/extend_beams.cuh"
#include "cuda/rounds/likeliest.cuh"

namespace molspec::cuda {

inline __device__ int32_t node_count_of(const StageBeamsProblem& problem, int query) {
  const BeamAnswer& answer = problem.rows.answers.head(query);
  return answer.state == BeamAnswer::kLive ? answer.live_count : 0;
}

// A block a query: threads stride over the hypotheses of their query.
inline __global__ void stage_beams_kernel(StageBeamsProblem problem) {
  await_previous();
  const int query = blockIdx.x;
  const BeamRows& rows = problem.rows;
  BeamAnswer& answer = rows.answers.head(query);
  const int32_t first = allot_nodes(problem.nodes, problem.node_count, rows.answers.query_count,
                                    [&](int other) { return node_count_of(problem, other); });
  if (threadIdx.x == 0) answer.first_node = first;
  if (first == BeamAnswer::kNotStaged) return;
  if (threadIdx.x == 0) {
    ++answer.steps;
    answer.nodes += answer.live_count;
    if (answer.length == 0) {
      rows.tree(query)[0] = {problem.bos_id, BeamNode::kNone};
      rows.path_slots[rows.path_begin(query, 0, 0)] = rows.slot(query, 0);
    }
  }
  const BeamHypothesis* beam = rows.answers.beam(query);
  for (int32_t rank = threadIdx.x; rank < answer.count; rank += blockDim.x) {
    if (beam[rank].finished) continue;
    int32_t at = first;
    for (int32_t other = 0; other < rank; ++other) at += !beam[other].finished;
    const auto path_begin = static_cast<int32_t>(rows.path_begin(query, answer.length, rank));
    problem.nodes[at] = {rows.tree(query)[beam[rank].node].token_id, answer.length, path_begin,
                         query};
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
  const int64_t node = blockIdx.x * (kRankThreads / kWarp) + warp_index();
  if (node >= problem.node_count || problem.nodes[node].memory == kAbsent) return;
  const float* row = problem.log_probs + node * problem.vocab_size;
  LikelyToken token = likeliest(row, problem.vocab_size);
  if (!isfinite(token.log_prob)) token = {-INFINITY, LikelyToken::kNone};
  for (int64_t i = node * problem.best.count;; ++i) {
    if (lane_index() == 0) {
      problem.best.ids[i] = token.token_id == LikelyToken::kNone ? kNoToken : token.token_id;
      problem.best.log_probs[i] = token.log_prob;
    }
    if (i + 1 == (node + 1) * problem.best.count) return;
    token = likeliest_after(token, row, problem.vocab_size);
  }
}

void rank_tokens(const RankTokensProblem& problem, cudaStream_t stream) {
  constexpr int kNodes = kRankThreads / kWarp;
  launch("rank_tokens", rank_tokens_kernel, (problem.node_count + kNodes - 1) / kNodes,
         kRankThreads, stream, problem);
}

void extend_beams(const ExtendBeamsProblem& problem, cudaStream_t stream) {
  launch("extend_beams", extend_beams_kernel, problem.rows.answers.query_count, kBeamThreads,
         stream, problem);
}

}  // namespace molspec::cuda
