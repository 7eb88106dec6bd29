#include "ops/dense.h"

#include <torch/csrc/stable/library.h>

#include <cmath>
#include <functional>
#include <vector>

#include "rules/candidate.h"

namespace molspec::cpu {
namespace {

struct Indexed : Ranked<int64_t> {
  int64_t index;

  bool operator<(const Indexed& other) const {  // among equals, who came first
    if (better(*this, other) || better(other, *this)) return better(*this, other);
    return index < other.index;
  }
};

void select_query(const SelectHypothesesProblem& problem, int64_t query,
                  std::vector<Indexed>& candidates) {
  candidates.clear();
  const int64_t row = query * problem.candidate_count;
  for (int64_t i = 0; i < problem.candidate_counts[query]; ++i)
    candidates.push_back(
        {{problem.scores[row + i], problem.parent_ranks[row + i], problem.token_ids[row + i]}, i});
  const auto end =
      select_best(candidates.begin(), candidates.end(), problem.beam_size, std::less<Indexed>());
  int64_t* indices = problem.indices + query * problem.beam_size;
  problem.counts[query] = end - candidates.begin();
  for (int64_t i = 0; i < problem.beam_size; ++i)
    indices[i] = i < problem.counts[query] ? candidates[static_cast<size_t>(i)].index : 0;
}

void values_check(const SelectHypothesesProblem& problem) {
  for (int64_t query = 0; query < problem.query_count; ++query) {
    const int64_t count = problem.candidate_counts[query];
    check(count >= 0 && count <= problem.candidate_count, "candidate_counts[", query, "] is ",
          count, ": expected 0 to ", problem.candidate_count);
    for (int64_t i = 0; i < count; ++i)
      check(!std::isnan(problem.scores[query * problem.candidate_count + i]), "scores[", query,
            ", ", i, "] is not a number");
  }
}

std::tuple<Tensor, Tensor> select_hypotheses_op(const Tensor& scores, const Tensor& parent_ranks,
                                                const Tensor& token_ids,
                                                const Tensor& candidate_counts, int64_t beam_size) {
  SelectHypothesesProblem problem =
      select_hypotheses_check(scores, parent_ranks, token_ids, candidate_counts, beam_size);
  values_check(problem);
  auto results = select_hypotheses_results(problem, token_ids);
  std::vector<Indexed> candidates;
  for (int64_t query = 0; query < problem.query_count; ++query)
    select_query(problem, query, candidates);
  return results;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("select_hypotheses", TORCH_BOX(&select_hypotheses_op));
}

}  // namespace molspec::cpu
