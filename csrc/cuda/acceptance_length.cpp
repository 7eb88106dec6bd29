#include "ops/acceptance_length.h"

#include <torch/csrc/stable/library.h>

#include "cuda/first_bad.h"
#include "cuda/kernels.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

Tensor acceptance_length_op(const Tensor& draft_ids, const Tensor& draft_lengths,
                            const Tensor& predicted_ids) {
  const Stream stream{
      {draft_ids, "draft_ids"}, {draft_lengths, "draft_lengths"}, {predicted_ids, "predicted_ids"}};
  AcceptanceLengthProblem problem =
      acceptance_length_check(draft_ids, draft_lengths, predicted_ids);
  Tensor accepted = acceptance_length_result(problem, draft_ids);
  const FirstBad first_bad(draft_ids, stream);
  acceptance_length(problem, first_bad.data(), stream);
  first_bad.check_none("draft_lengths", problem.draft_lengths, problem.draft_length);
  return accepted;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("acceptance_length", TORCH_BOX(&acceptance_length_op));
}

}  // namespace molspec::cuda
