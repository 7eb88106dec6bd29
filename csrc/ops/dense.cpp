#include "ops/dense.h"

#include <torch/csrc/stable/ops.h>

#include <algorithm>

#include "ops/check.h"
#include "ops/model.h"

namespace molspec {
namespace {

// Checks a tensor of `count` integers.
const int64_t* checked_list(const Tensor& tensor, const char* name, int64_t count,
                            const char* counted) {
  const auto* data = checked_data<const int64_t>(tensor, name, 1);
  check(tensor.numel() == count, name, " has ", tensor.numel(), " entries: expected one a ",
        counted, ", ", count);
  return data;
}

// Checks a tensor of integers with the shape of another one.
const int64_t* checked_like(const Tensor& tensor, const char* name, const Tensor& like,
                            const char* like_name) {
  const auto* data = checked_data<const int64_t>(tensor, name, 2);
  check(tensor.size(0) == like.size(0) && tensor.size(1) == like.size(1), name, " has shape ",
        Shape{tensor}, ": expected ", like_name, Shape{like});
  return data;
}

// An output [rows, columns] or [rows]; the problem points to it.
Tensor result(const Tensor& like, std::initializer_list<int64_t> shape, int64_t*& data) {
  Tensor tensor = torch::stable::new_empty(like, shape);
  data = static_cast<int64_t*>(tensor.data_ptr());
  return tensor;
}

void check_values(const int64_t* values, int64_t count, const char* name, int64_t most) {
  for (int64_t i = 0; i < count; ++i)
    check(values[i] >= 0 && values[i] <= most, name, "[", i, "] is ", values[i], ": expected 0 to ",
          most);
}

}  // namespace

LeftPadProblem left_pad_check(const Tensor& token_ids, const Tensor& lengths, int64_t pad_id) {
  LeftPadProblem problem{};
  problem.token_ids = checked_data<const int64_t>(token_ids, "token_ids", 1);
  problem.lengths = checked_data<const int64_t>(lengths, "lengths", 1);
  problem.token_count = token_ids.numel();
  problem.row_count = lengths.numel();
  problem.pad_id = pad_id;
  return problem;
}

void left_pad_measure(LeftPadProblem& problem, const int64_t* lengths) {
  check_values(lengths, problem.row_count, "lengths", problem.token_count);
  int64_t total = 0;
  for (int64_t row = 0; row < problem.row_count; ++row) {
    problem.width = std::max(problem.width, lengths[row]);
    total += lengths[row];
  }
  check(total == problem.token_count, "lengths add up to ", total, ": expected the ",
        problem.token_count, " of token_ids");
}

std::tuple<Tensor, Tensor> left_pad_results(LeftPadProblem& problem, const Tensor& like) {
  return {result(like, {problem.row_count, problem.width}, problem.padded_ids),
          result(like, {problem.row_count}, problem.position_offsets)};
}

ExpandDraftsProblem expand_drafts_check(const Tensor& token_ids, const Tensor& position_offsets,
                                        const Tensor& query_indices, const Tensor& draft_ids) {
  ExpandDraftsProblem problem{};
  problem.token_ids = checked_data<const int64_t>(token_ids, "token_ids", 2);
  problem.hypothesis_count = token_ids.size(0);
  problem.length = token_ids.size(1);
  problem.position_offsets =
      checked_list(position_offsets, "position_offsets", token_ids.size(0), "hypothesis");
  problem.query_indices =
      checked_list(query_indices, "query_indices", token_ids.size(0), "hypothesis");
  problem.draft_ids = checked_data<const int64_t>(draft_ids, "draft_ids", 3);
  problem.query_count = draft_ids.size(0);
  problem.draft_count = draft_ids.size(1);
  problem.draft_length = draft_ids.size(2);
  check(problem.draft_count <= kMostSize, "draft_ids has ", problem.draft_count,
        " drafts a query: expected at most ", kMostSize);  // without tokens, any number fits
  return problem;
}

void expand_drafts_values(const ExpandDraftsProblem& problem, const int64_t* query_indices) {
  check_values(query_indices, problem.hypothesis_count, "query_indices", problem.query_count - 1);
}

std::tuple<Tensor, Tensor, Tensor> expand_drafts_results(ExpandDraftsProblem& problem,
                                                         const Tensor& like) {
  const int64_t rows = problem.hypothesis_count * problem.draft_count;
  return {result(like, {rows, problem.length + problem.draft_length}, problem.expanded_ids),
          result(like, {rows}, problem.expanded_offsets),
          result(like, {rows}, problem.expanded_queries)};
}

AcceptanceLengthProblem acceptance_length_check(const Tensor& draft_ids,
                                                const Tensor& draft_lengths,
                                                const Tensor& predicted_ids) {
  AcceptanceLengthProblem problem{};
  problem.draft_ids = checked_data<const int64_t>(draft_ids, "draft_ids", 2);
  problem.row_count = draft_ids.size(0);
  problem.draft_length = draft_ids.size(1);
  problem.draft_lengths = checked_list(draft_lengths, "draft_lengths", draft_ids.size(0), "draft");
  problem.predicted_ids = checked_like(predicted_ids, "predicted_ids", draft_ids, "draft_ids' ");
  return problem;
}

void acceptance_length_values(const AcceptanceLengthProblem& problem,
                              const int64_t* draft_lengths) {
  check_values(draft_lengths, problem.row_count, "draft_lengths", problem.draft_length);
}

Tensor acceptance_length_result(AcceptanceLengthProblem& problem, const Tensor& like) {
  return result(like, {problem.row_count}, problem.accepted);
}

}  // namespace molspec
