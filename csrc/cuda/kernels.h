// What the GPU computes, as the launchers see it: problems of raw device pointers and a stream.
// Free of torch; each function is in the .cu file of its operator and returns once its kernels are
// queued. Throws std::runtime_error where CUDA refuses a launch.

#pragma once

#include <cuda_runtime.h>

#include "ops/acceptance_length.h"
#include "ops/expand_drafts.h"
#include "ops/left_pad.h"

namespace molspec::cuda {

// What the lengths of left_pad add up to.
struct RowMeasure {
  int64_t width, total;
  int64_t bad_row, bad_length;  // the first row of negative length; bad_row is row_count if none
};
// Writes where each row begins in token_ids [row] and the measure.
void left_pad_measure(const LeftPadProblem& problem, int64_t* begins, RowMeasure* measure,
                      cudaStream_t stream);
void left_pad(const LeftPadProblem& problem, const int64_t* begins, cudaStream_t stream);

// The least index of an entry that is out of range goes to first_bad; its rows are left out.
using FirstBadIndex = unsigned long long;
constexpr FirstBadIndex kNoneBad = ~0ULL;
void expand_drafts(const ExpandDraftsProblem& problem, FirstBadIndex* first_bad,
                   cudaStream_t stream);
void acceptance_length(const AcceptanceLengthProblem& problem, FirstBadIndex* first_bad,
                       cudaStream_t stream);

}  // namespace molspec::cuda
