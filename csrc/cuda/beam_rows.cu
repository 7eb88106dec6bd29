#include "cuda/launch.h"
#include "cuda/rank_tokens.cuh"
#include "cuda/select_beams.cuh"
#include "cuda/stage_beams.cuh"

namespace molspec::cuda {

void stage_beams(const StageBeamsProblem& problem, cudaStream_t stream) {
  launch("stage_beams", stage_beams_kernel, static_cast<unsigned>(problem.answers.query_count),
         kStageThreads, stream, problem);
}

void rank_tokens(const RankTokensProblem& problem, cudaStream_t stream) {
  constexpr int kNodes = kRankThreads / kWarp;
  launch("rank_tokens", rank_tokens_kernel,
         static_cast<unsigned>((problem.node_count + kNodes - 1) / kNodes), kRankThreads, stream,
         problem);
}

void select_beams(const SelectBeamsProblem& problem, cudaStream_t stream) {
  launch("select_beams", select_beams_kernel, static_cast<unsigned>(problem.answers.query_count),
         kSelectThreads, stream, problem);
}

}  // namespace molspec::cuda
