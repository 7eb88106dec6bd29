#include "cuda/acceptance_length.cuh"
#include "cuda/launch.h"

namespace molspec::cuda {

void acceptance_length(const AcceptanceLengthProblem& problem, FirstBadIndex* first_bad,
                       cudaStream_t stream) {
  constexpr int kRows = 4;  // of a block
  launch("acceptance_length", acceptance_length_kernel,
         static_cast<unsigned>((problem.row_count + kRows - 1) / kRows), kRows * kWarp, stream,
         problem, first_bad);
}

}  // namespace molspec::cuda
