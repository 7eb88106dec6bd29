#include "ops/left_pad.h"

#include "ops/check.h"

namespace molspec {

LeftPadProblem left_pad_check(const Tensor& token_ids, const Tensor& lengths, int64_t pad_id) {
  LeftPadProblem problem{};
  problem.token_ids = checked_data<const int64_t>(token_ids, "token_ids", ScalarType::Long, 1);
  problem.lengths = checked_data<const int64_t>(lengths, "lengths", ScalarType::Long, 1);
  problem.row_count = lengths.numel();
  problem.pad_id = pad_id;
  return problem;
}

}  // namespace molspec
