#include "cuda/launch.h"
#include "cuda/look_ahead.cuh"
#include "cuda/plan_windows.cuh"
#include "cuda/rank_tokens.cuh"
#include "cuda/replay_beams.cuh"
#include "cuda/select_leaves.cuh"
#include "cuda/stage_beams.cuh"

namespace molspec::cuda {

void look_ahead(const LookAheadProblem& problem, cudaStream_t stream) {
  launch("look_ahead", look_ahead_kernel, problem.rows.answers.query_count, kLookAheadThreads,
         stream, problem);
}

void stage_beams(const StageBeamsProblem& problem, cudaStream_t stream) {
  launch("stage_beams", stage_beams_kernel, problem.rows.answers.query_count, kStageThreads, stream,
         problem);
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

void plan_windows(const PlanWindowsProblem& problem, cudaStream_t stream) {
  launch("plan_windows", plan_windows_kernel, problem.rows.answers.query_count, kPlanThreads,
         stream, problem);
}

void select_leaves(const SelectLeavesProblem& problem, cudaStream_t stream) {
  launch("select_leaves", select_leaves_kernel, problem.rows.answers.query_count, kLeafThreads,
         stream, problem);
}

}  // namespace molspec::cuda
