// Launchers of the kernels for dense batches (ops/dense.h), without torch.

#pragma once

#include <cuda_runtime.h>

#include "ops/dense.h"

namespace molspec::cuda {

// The sums of left_pad's lengths.
struct RowMeasure {
  int64_t width, total;
  int64_t bad_row, bad_length;  // the first row with an invalid length; row_count if there is none
};
// Writes the begin of each row in token_ids [row], and the measure.
void left_pad_measure(const LeftPadProblem& problem, int64_t* begins, RowMeasure* measure,
                      cudaStream_t stream);
void left_pad(const LeftPadProblem& problem, const int64_t* begins, cudaStream_t stream);

// The lowest index of an entry that is out of range goes to first_bad; its rows are left out.
using FirstBadIndex = unsigned long long;
constexpr FirstBadIndex kNoneBad = ~0ULL;
void expand_drafts(const ExpandDraftsProblem& problem, FirstBadIndex* first_bad,
                   cudaStream_t stream);
void acceptance_length(const AcceptanceLengthProblem& problem, FirstBadIndex* first_bad,
                       cudaStream_t stream);

}  // namespace molspec::cuda
