#include "cuda/launch.h"
#include "cuda/select_hypotheses.cuh"

namespace molspec::cuda {

void select_hypotheses(const SelectHypothesesProblem& problem, FirstBadIndex* bad_count,
                       FirstBadIndex* bad_score, cudaStream_t stream) {
  launch("select_hypotheses", select_hypotheses_kernel, static_cast<unsigned>(problem.query_count),
         128, stream, problem, bad_count, bad_score);
}

}  // namespace molspec::cuda
