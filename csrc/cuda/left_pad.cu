#include "cuda/launch.h"
#include "cuda/left_pad.cuh"

namespace molspec::cuda {

void left_pad_measure(const LeftPadProblem& problem, int64_t* begins, RowMeasure* measure,
                      cudaStream_t stream) {
  launch("left_pad_measure", left_pad_measure_kernel, 1, kMeasureThreads, stream, problem.lengths,
         problem.row_count, problem.token_count, begins, measure);
}

void left_pad(const LeftPadProblem& problem, const int64_t* begins, cudaStream_t stream) {
  launch("left_pad", left_pad_kernel, static_cast<unsigned>(problem.row_count), 128, stream,
         problem, begins);
}

}  // namespace molspec::cuda
