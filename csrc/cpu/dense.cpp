// The operators of dense batches on the CPU.

#include "ops/dense.h"

#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "rules/candidate.h"

namespace molspec::cpu {
namespace {

void check_values(const int64_t* values, int64_t count, const char* name, int64_t most) {
  for (int64_t i = 0; i < count; ++i)
    check(values[i] >= 0 && values[i] <= most, name, "[", i, "] is ", values[i], ": expected 0 to ",
          most);
}

std::tuple<Tensor, Tensor> left_pad_op(const Tensor& token_ids, const Tensor& lengths,
                                       int64_t pad_id) {
  LeftPadProblem problem = left_pad_check(token_ids, lengths, pad_id);
  check_values(problem.lengths, problem.row_count, "lengths", problem.token_count);
  int64_t total = 0;
  for (int64_t row = 0; row < problem.row_count; ++row) {
    problem.width = std::max(problem.width, problem.lengths[row]);
    total += problem.lengths[row];
  }
  check(total == problem.token_count, "lengths add up to ", total, ": expected the ",
        problem.token_count, " of token_ids");
  auto results = left_pad_results(problem, token_ids);
  const int64_t* from = problem.token_ids;
  int64_t* to = problem.padded_ids;
  for (int64_t row = 0; row < problem.row_count; ++row) {
    const int64_t pads = problem.width - problem.lengths[row];
    problem.position_offsets[row] = pads;
    to = std::fill_n(to, pads, problem.pad_id);
    to = std::copy_n(from, problem.lengths[row], to);
    from += problem.lengths[row];
  }
  return results;
}

std::tuple<Tensor, Tensor, Tensor> expand_drafts_op(const Tensor& token_ids,
                                                    const Tensor& position_offsets,
                                                    const Tensor& query_indices,
                                                    const Tensor& draft_ids) {
  ExpandDraftsProblem problem =
      expand_drafts_check(token_ids, position_offsets, query_indices, draft_ids);
  check_values(problem.query_indices, problem.hypothesis_count, "query_indices",
               problem.query_count - 1);
  auto results = expand_drafts_results(problem, token_ids);
  int64_t* to = problem.expanded_ids;
  for (int64_t hypothesis = 0; hypothesis < problem.hypothesis_count; ++hypothesis) {
    const int64_t query = problem.query_indices[hypothesis];
    const int64_t* sequence = problem.token_ids + hypothesis * problem.length;
    const int64_t* draft = problem.draft_ids + query * problem.draft_count * problem.draft_length;
    for (int64_t d = 0; d < problem.draft_count; ++d, draft += problem.draft_length) {
      to = std::copy_n(sequence, problem.length, to);
      to = std::copy_n(draft, problem.draft_length, to);
    }
    const int64_t row = hypothesis * problem.draft_count;
    std::fill_n(problem.expanded_offsets + row, problem.draft_count,
                problem.position_offsets[hypothesis]);
    std::fill_n(problem.expanded_queries + row, problem.draft_count, query);
  }
  return results;
}

Tensor acceptance_length_op(const Tensor& draft_ids, const Tensor& draft_lengths,
                            const Tensor& predicted_ids) {
  AcceptanceLengthProblem problem =
      acceptance_length_check(draft_ids, draft_lengths, predicted_ids);
  check_values(problem.draft_lengths, problem.row_count, "draft_lengths", problem.draft_length);
  Tensor accepted = acceptance_length_result(problem, draft_ids);
  for (int64_t row = 0; row < problem.row_count; ++row) {
    const int64_t* draft = problem.draft_ids + row * problem.draft_length;
    const int64_t* end = draft + problem.draft_lengths[row];
    const int64_t* predicted = problem.predicted_ids + row * problem.draft_length;
    problem.accepted[row] = std::mismatch(draft, end, predicted).first - draft;
  }
  return accepted;
}

struct Indexed : Ranked<int64_t> {
  int64_t index;

  bool operator<(const Indexed& other) const {  // among equals, the earlier one first
    if (better(*this, other) || better(other, *this)) return better(*this, other);
    return index < other.index;
  }
};

void select_query(const SelectHypothesesProblem& problem, int64_t query,
                  std::vector<Indexed>& candidates) {
  candidates.clear();
  const int64_t row = query * problem.candidate_count;
  for (int64_t i = 0; i < problem.candidate_counts[query]; ++i) {
    check(!std::isnan(problem.scores[row + i]), "scores[", query, ", ", i, "] is not a number");
    candidates.push_back(
        {{problem.scores[row + i], problem.parent_ranks[row + i], problem.token_ids[row + i]}, i});
  }
  keep_best(candidates, problem.beam_size, std::less<Indexed>());
  problem.counts[query] = static_cast<int64_t>(candidates.size());
  int64_t* indices = problem.indices + query * problem.beam_size;
  std::fill_n(indices, problem.beam_size, 0);
  for (const Indexed& candidate : candidates) *indices++ = candidate.index;
}

std::tuple<Tensor, Tensor> select_hypotheses_op(const Tensor& scores, const Tensor& parent_ranks,
                                                const Tensor& token_ids,
                                                const Tensor& candidate_counts, int64_t beam_size) {
  SelectHypothesesProblem problem =
      select_hypotheses_check(scores, parent_ranks, token_ids, candidate_counts, beam_size);
  check_values(problem.candidate_counts, problem.query_count, "candidate_counts",
               problem.candidate_count);
  auto results = select_hypotheses_results(problem, token_ids);
  std::vector<Indexed> candidates;
  for (int64_t query = 0; query < problem.query_count; ++query)
    select_query(problem, query, candidates);
  return results;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("left_pad", TORCH_BOX(&left_pad_op));
  library.impl("expand_drafts", TORCH_BOX(&expand_drafts_op));
  library.impl("acceptance_length", TORCH_BOX(&acceptance_length_op));
  library.impl("select_hypotheses", TORCH_BOX(&select_hypotheses_op));
}

}  // namespace molspec::cpu
