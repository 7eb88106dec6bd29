#include "ops/select_hypotheses.h"

#include <torch/csrc/stable/ops.h>

#include "ops/check.h"

namespace molspec {
namespace {

template <typename T>
const T* matrix(const Tensor& tensor, const char* name, ScalarType type, const Tensor& scores) {
  const T* data = checked_data<const T>(tensor, name, type, 2);
  check(tensor.size(0) == scores.size(0) && tensor.size(1) == scores.size(1), name, " has shape [",
        tensor.size(0), ", ", tensor.size(1), "]: expected that of scores, [", scores.size(0), ", ",
        scores.size(1), "]");
  return data;
}

}  // namespace

SelectHypothesesProblem select_hypotheses_check(const Tensor& scores, const Tensor& parent_ranks,
                                                const Tensor& token_ids,
                                                const Tensor& candidate_counts, int64_t beam_size) {
  SelectHypothesesProblem problem{};
  problem.scores = checked_data<const double>(scores, "scores", ScalarType::Double, 2);
  problem.query_count = scores.size(0);
  problem.candidate_count = scores.size(1);
  problem.beam_size = beam_size;
  problem.parent_ranks = matrix<int64_t>(parent_ranks, "parent_ranks", ScalarType::Long, scores);
  problem.token_ids = matrix<int64_t>(token_ids, "token_ids", ScalarType::Long, scores);
  problem.candidate_counts =
      checked_data<const int64_t>(candidate_counts, "candidate_counts", ScalarType::Long, 1);
  check(candidate_counts.numel() == problem.query_count, "candidate_counts has ",
        candidate_counts.numel(), " entries: expected one a query, ", problem.query_count);
  check(beam_size >= 1, "beam_size is ", beam_size, ": expected at least 1");
  return problem;
}

std::tuple<Tensor, Tensor> select_hypotheses_results(SelectHypothesesProblem& problem,
                                                     const Tensor& like) {
  Tensor indices = torch::stable::new_empty(like, {problem.query_count, problem.beam_size});
  Tensor counts = torch::stable::new_empty(like, {problem.query_count});
  problem.indices = static_cast<int64_t*>(indices.data_ptr());
  problem.counts = static_cast<int64_t*>(counts.data_ptr());
  return {indices, counts};
}

}  // namespace molspec
