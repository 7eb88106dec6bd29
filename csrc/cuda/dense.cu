#include "cuda/dense.cuh"
#include "cuda/launch.h"

namespace molspec::cuda {

void left_pad_measure(const LeftPadProblem& problem, int64_t* begins, RowMeasure* measure,
                      cudaStream_t stream) {
  launch("left_pad_measure", left_pad_measure_kernel, 1, kMeasureThreads, stream, problem.lengths,
         problem.row_count, problem.token_count, begins, measure);
}

void left_pad(const LeftPadProblem& problem, const int64_t* begins, cudaStream_t stream) {
  launch("left_pad", left_pad_kernel, problem.row_count, 128, stream, problem, begins);
}

void expand_drafts(const ExpandDraftsProblem& problem, FirstBadIndex* first_bad,
                   cudaStream_t stream) {
  launch("expand_drafts", expand_drafts_kernel, problem.hypothesis_count * problem.draft_count, 128,
         stream, problem, first_bad);
}

void acceptance_length(const AcceptanceLengthProblem& problem, FirstBadIndex* first_bad,
                       cudaStream_t stream) {
  constexpr int kRows = 4;  // of a block
  launch("acceptance_length", acceptance_length_kernel, (problem.row_count + kRows - 1) / kRows,
         kRows * kWarp, stream, problem, first_bad);
}

void select_hypotheses(const SelectHypothesesProblem& problem, FirstBadIndex* bad_count,
                       FirstBadIndex* bad_score, cudaStream_t stream) {
  launch("select_hypotheses", select_hypotheses_kernel, problem.query_count, 128, stream, problem,
         bad_count, bad_score);
}

}  // namespace molspec::cuda
