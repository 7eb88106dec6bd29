// acceptance_length: how many tokens of each draft the model would have written itself.

#pragma once

#include <cstdint>

#include "ops/refuse.h"

namespace molspec {

struct AcceptanceLengthProblem {
  int64_t row_count, draft_length;
  const int64_t* draft_ids;      // [row, draft_length]
  const int64_t* draft_lengths;  // [row]; what lies after is padding
  const int64_t* predicted_ids;  // [row, draft_length]: the model's token at each draft position
  int64_t* accepted;             // [row]: longest prefix where both agree
};

// Everything but the output.
AcceptanceLengthProblem acceptance_length_check(const Tensor& draft_ids,
                                                const Tensor& draft_lengths,
                                                const Tensor& predicted_ids);

// The result, where `like` lies; the problem points to it.
Tensor acceptance_length_result(AcceptanceLengthProblem& problem, const Tensor& like);

}  // namespace molspec
