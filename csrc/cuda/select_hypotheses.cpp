#include "ops/select_hypotheses.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <tuple>

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
  Tensor indices = torch::stable::new_empty(token_ids, {problem.query_count, beam_size});
  Tensor counts = torch::stable::new_empty(token_ids, {problem.query_count});
  problem.indices = static_cast<int64_t*>(indices.data_ptr());
  problem.counts = static_cast<int64_t*>(counts.data_ptr());
  const FirstBad bad_count(token_ids, stream), bad_score(token_ids, stream);
  select_hypotheses(problem, bad_count.data(), bad_score.data(), stream);
  bad_count.check_none("candidate_counts", problem.candidate_counts, problem.candidate_count);
  const FirstBadIndex score = bad_score.index();
  check(score == kNoneBad, "scores[", score / problem.candidate_count, ", ",
        score % problem.candidate_count, "] is not a number");
  return {indices, counts};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("select_hypotheses", TORCH_BOX(&select_hypotheses_op));
}

}  // namespace molspec::cuda
