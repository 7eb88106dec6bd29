#include "ops/acceptance_length.h"

#include <torch/csrc/stable/ops.h>

#include "ops/check.h"

namespace molspec {

AcceptanceLengthProblem acceptance_length_check(const Tensor& draft_ids,
                                                const Tensor& draft_lengths,
                                                const Tensor& predicted_ids) {
  AcceptanceLengthProblem problem{};
  problem.draft_ids = checked_data<const int64_t>(draft_ids, "draft_ids", ScalarType::Long, 2);
  problem.row_count = draft_ids.size(0);
  problem.draft_length = draft_ids.size(1);
  problem.draft_lengths =
      checked_data<const int64_t>(draft_lengths, "draft_lengths", ScalarType::Long, 1);
  problem.predicted_ids =
      checked_data<const int64_t>(predicted_ids, "predicted_ids", ScalarType::Long, 2);
  check(draft_lengths.numel() == problem.row_count, "draft_lengths has ", draft_lengths.numel(),
        " entries: expected one a draft, ", problem.row_count);
  check(predicted_ids.size(0) == problem.row_count && predicted_ids.size(1) == problem.draft_length,
        "predicted_ids has shape [", predicted_ids.size(0), ", ", predicted_ids.size(1),
        "]: expected draft_ids' [", problem.row_count, ", ", problem.draft_length, "]");
  return problem;
}

Tensor acceptance_length_result(AcceptanceLengthProblem& problem, const Tensor& like) {
  Tensor accepted = torch::stable::new_empty(like, {problem.row_count});
  problem.accepted = static_cast<int64_t*>(accepted.data_ptr());
  return accepted;
}

}  // namespace molspec
