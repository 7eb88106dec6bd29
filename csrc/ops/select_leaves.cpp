#include "ops/select_leaves.h"

#include "ops/check.h"

namespace molspec {

SelectLeavesProblem select_leaves_check(const BeamRows& rows, const BestTokens& best,
                                        const double* length_norms, double nucleus,
                                        int64_t eos_id) {
  check(!rows.answers.finished_apart(),
        "answers has room for hypotheses that finish apart: expected none");
  return {rows, best, length_norms, static_cast<float>(nucleus), static_cast<int32_t>(eos_id)};
}

}  // namespace molspec
