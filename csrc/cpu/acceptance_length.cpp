#include "ops/dense.h"

#include <torch/csrc/stable/library.h>

namespace molspec::cpu {
namespace {

void acceptance_length(const AcceptanceLengthProblem& problem) {
  for (int64_t row = 0; row < problem.row_count; ++row) {
    const int64_t* draft = problem.draft_ids + row * problem.draft_length;
    const int64_t* predicted = problem.predicted_ids + row * problem.draft_length;
    int64_t accepted = 0;
    while (accepted < problem.draft_lengths[row] && draft[accepted] == predicted[accepted])
      ++accepted;
    problem.accepted[row] = accepted;
  }
}

Tensor acceptance_length_op(const Tensor& draft_ids, const Tensor& draft_lengths,
                            const Tensor& predicted_ids) {
  AcceptanceLengthProblem problem =
      acceptance_length_check(draft_ids, draft_lengths, predicted_ids);
  for (int64_t row = 0; row < problem.row_count; ++row)
    check(problem.draft_lengths[row] >= 0 && problem.draft_lengths[row] <= problem.draft_length,
          "draft_lengths[", row, "] is ", problem.draft_lengths[row], ": expected 0 to ",
          problem.draft_length);
  Tensor accepted = acceptance_length_result(problem, draft_ids);
  acceptance_length(problem);
  return accepted;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("acceptance_length", TORCH_BOX(&acceptance_length_op));
}

}  // namespace molspec::cpu
