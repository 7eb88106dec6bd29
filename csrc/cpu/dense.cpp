// The operators of dense batches on the CPU.

#include "ops/dense.h"

#include <torch/csrc/stable/library.h>

#include <algorithm>

namespace molspec::cpu {
namespace {

std::tuple<Tensor, Tensor> left_pad_op(const Tensor& token_ids, const Tensor& lengths,
                                       int64_t pad_id) {
  LeftPadProblem problem = left_pad_check(token_ids, lengths, pad_id);
  left_pad_measure(problem, problem.lengths);
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
  expand_drafts_values(problem, problem.query_indices);
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
  acceptance_length_values(problem, problem.draft_lengths);
  Tensor accepted = acceptance_length_result(problem, draft_ids);
  for (int64_t row = 0; row < problem.row_count; ++row) {
    const int64_t* draft = problem.draft_ids + row * problem.draft_length;
    const int64_t* end = draft + problem.draft_lengths[row];
    const int64_t* predicted = problem.predicted_ids + row * problem.draft_length;
    problem.accepted[row] = std::mismatch(draft, end, predicted).first - draft;
  }
  return accepted;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("left_pad", TORCH_BOX(&left_pad_op));
  library.impl("expand_drafts", TORCH_BOX(&expand_drafts_op));
  library.impl("acceptance_length", TORCH_BOX(&acceptance_length_op));
}

}  // namespace molspec::cpu
