#include "ops/select_hypotheses.h"

#include <torch/csrc/stable/library.h>

#include "cuda/first_bad.h"
#include "cuda/kernels.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

std::tuple<Tensor, Tensor> select_hypotheses_op(const Tensor& scores, const Tensor& parent_ranks,
                                                const Tensor& token_ids,
                                                const Tensor& candidate_counts, int64_t beam_size) {
  const Stream stream{{scores, "scores"},
                      {parent_ranks, "parent_ranks"},
                      {token_ids, "token_ids"},
                      {candidate_counts, "candidate_counts"}};
  SelectHypothesesProblem problem =
      select_hypotheses_check(scores, parent_ranks, token_ids, candidate_counts, beam_size);
  auto results = select_hypotheses_results(problem, token_ids);
  const FirstBad bad_count(token_ids, stream), bad_score(token_ids, stream);
  select_hypotheses(problem, bad_count.data(), bad_score.data(), stream);
  bad_count.check_none("candidate_counts", problem.candidate_counts, problem.candidate_count);
  const FirstBadIndex score = bad_score.index();
  if (score != kNoneBad)  // nothing is divided where there are no candidates
    check(false, "scores[", score / problem.candidate_count, ", ", score % problem.candidate_count,
          "] is not a number");
  return results;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("select_hypotheses", TORCH_BOX(&select_hypotheses_op));
}

}  // namespace molspec::cuda
