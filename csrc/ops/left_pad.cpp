#include "ops/left_pad.h"

#include <torch/csrc/stable/ops.h>

#include "ops/check.h"

namespace molspec {

LeftPadProblem left_pad_check(const Tensor& token_ids, const Tensor& lengths, int64_t pad_id) {
  LeftPadProblem problem{};
  problem.token_ids = checked_data<const int64_t>(token_ids, "token_ids", ScalarType::Long, 1);
  problem.token_count = token_ids.numel();
  problem.lengths = checked_data<const int64_t>(lengths, "lengths", ScalarType::Long, 1);
  problem.row_count = lengths.numel();
  problem.pad_id = pad_id;
  return problem;
}

std::tuple<Tensor, Tensor> left_pad_results(LeftPadProblem& problem, const Tensor& like) {
  Tensor padded_ids = torch::stable::new_empty(like, {problem.row_count, problem.width});
  Tensor position_offsets = torch::stable::new_empty(like, {problem.row_count});
  problem.padded_ids = static_cast<int64_t*>(padded_ids.data_ptr());
  problem.position_offsets = static_cast<int64_t*>(position_offsets.data_ptr());
  return {padded_ids, position_offsets};
}

}  // namespace molspec
