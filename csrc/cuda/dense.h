// What the launchers of dense batches' kernels take (ops/dense.h). Free of torch.

#pragma once

#include <cuda_runtime.h>

#include "ops/dense.h"

namespace molspec::cuda {

// What the lengths of left_pad add up to.
struct RowMeasure {
  int64_t width, total;
  int64_t bad_row, bad_length;  // the first row of no such length; bad_row is row_count if none
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
// bad_count: as first_bad, of candidate_counts; bad_score: of scores, flat, one that is NaN.
void select_hypotheses(const SelectHypothesesProblem& problem, FirstBadIndex* bad_count,
                       FirstBadIndex* bad_score, cudaStream_t stream);

}  // namespace molspec::cuda
