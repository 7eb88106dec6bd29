// The operators of dense batches: they check tensors and their values, make the results, and let a
// device compute them. A *device* offers
//
//   Device(arguments)              the tensors and their names; throws if one is elsewhere
//   on_host(values, count)         the values of a tensor, valid as long as the device
//   left_pad, expand_drafts, acceptance_length(problem)    compute

#pragma once

#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <initializer_list>
#include <tuple>

#include "ops/check.h"
#include "ops/dense.h"
#include "ops/model.h"

namespace molspec {

// A result [rows, columns] or [rows]; the problem points to it.
inline Tensor dense_result(const Tensor& like, std::initializer_list<int64_t> shape,
                           int64_t*& data) {
  Tensor tensor = torch::stable::new_empty(like, shape);
  data = static_cast<int64_t*>(tensor.data_ptr());
  return tensor;
}

// The data of a tensor of `count` integers.
inline const int64_t* checked_list(const Tensor& tensor, const char* name, int64_t count,
                                   const char* counted) {
  const auto* data = checked_data<const int64_t>(tensor, name, 1);
  check(tensor.numel() == count, name, " has ", tensor.numel(), " entries: expected one a ",
        counted, ", ", count);
  return data;
}

inline void check_values(const int64_t* values, int64_t count, const char* name, int64_t most) {
  for (int64_t i = 0; i < count; ++i)
    check(values[i] >= 0 && values[i] <= most, name, "[", i, "] is ", values[i], ": expected 0 to ",
          most);
}

template <typename Device>
std::tuple<Tensor, Tensor> left_pad_op(const Tensor& token_ids, const Tensor& lengths,
                                       int64_t pad_id) {
  Device device{{token_ids, "token_ids"}, {lengths, "lengths"}};
  LeftPadProblem problem{};
  problem.token_ids = checked_data<const int64_t>(token_ids, "token_ids", 1);
  problem.lengths = checked_data<const int64_t>(lengths, "lengths", 1);
  problem.token_count = token_ids.numel();
  problem.row_count = lengths.numel();
  problem.pad_id = pad_id;
  const int64_t* values = device.on_host(problem.lengths, problem.row_count);
  check_values(values, problem.row_count, "lengths", problem.token_count);
  int64_t total = 0;
  for (int64_t row = 0; row < problem.row_count; ++row) {
    problem.width = std::max(problem.width, values[row]);
    total += values[row];
  }
  check(total == problem.token_count, "lengths add up to ", total, ": expected the ",
        problem.token_count, " of token_ids");
  std::tuple results{
      dense_result(token_ids, {problem.row_count, problem.width}, problem.padded_ids),
      dense_result(token_ids, {problem.row_count}, problem.position_offsets)};
  device.left_pad(problem);
  return results;
}

template <typename Device>
std::tuple<Tensor, Tensor, Tensor> expand_drafts_op(const Tensor& token_ids,
                                                    const Tensor& position_offsets,
                                                    const Tensor& query_indices,
                                                    const Tensor& draft_ids) {
  Device device{{token_ids, "token_ids"},
                {position_offsets, "position_offsets"},
                {query_indices, "query_indices"},
                {draft_ids, "draft_ids"}};
  ExpandDraftsProblem problem{};
  problem.token_ids = checked_data<const int64_t>(token_ids, "token_ids", 2);
  const int64_t hypotheses = problem.hypothesis_count = token_ids.size(0);
  problem.length = token_ids.size(1);
  problem.position_offsets =
      checked_list(position_offsets, "position_offsets", hypotheses, "hypothesis");
  problem.query_indices = checked_list(query_indices, "query_indices", hypotheses, "hypothesis");
  problem.draft_ids = checked_data<const int64_t>(draft_ids, "draft_ids", 3);
  problem.query_count = draft_ids.size(0);
  problem.draft_count = draft_ids.size(1);
  problem.draft_length = draft_ids.size(2);
  check(problem.draft_count <= kMostSize, "draft_ids has ", problem.draft_count,
        " drafts a query: expected at most ", kMostSize);  // without tokens, any number fits
  check_values(device.on_host(problem.query_indices, hypotheses), hypotheses, "query_indices",
               problem.query_count - 1);
  const int64_t rows = hypotheses * problem.draft_count;
  const int64_t width = problem.length + problem.draft_length;
  std::tuple results{dense_result(token_ids, {rows, width}, problem.expanded_ids),
                     dense_result(token_ids, {rows}, problem.expanded_offsets),
                     dense_result(token_ids, {rows}, problem.expanded_queries)};
  device.expand_drafts(problem);
  return results;
}

template <typename Device>
Tensor acceptance_length_op(const Tensor& draft_ids, const Tensor& draft_lengths,
                            const Tensor& predicted_ids) {
  Device device{
      {draft_ids, "draft_ids"}, {draft_lengths, "draft_lengths"}, {predicted_ids, "predicted_ids"}};
  AcceptanceLengthProblem problem{};
  problem.draft_ids = checked_data<const int64_t>(draft_ids, "draft_ids", 2);
  problem.row_count = draft_ids.size(0);
  problem.draft_length = draft_ids.size(1);
  problem.draft_lengths = checked_list(draft_lengths, "draft_lengths", problem.row_count, "draft");
  problem.predicted_ids = checked_data<const int64_t>(predicted_ids, "predicted_ids", 2);
  check(predicted_ids.size(0) == problem.row_count && predicted_ids.size(1) == problem.draft_length,
        "predicted_ids has shape ", Shape{predicted_ids}, ": expected draft_ids' ",
        Shape{draft_ids});
  check_values(device.on_host(problem.draft_lengths, problem.row_count), problem.row_count,
               "draft_lengths", problem.draft_length);
  Tensor accepted = dense_result(draft_ids, {problem.row_count}, problem.accepted);
  device.acceptance_length(problem);
  return accepted;
}

// Registers them for a device.
template <typename Device, typename Library>
void implement_dense(Library& library) {
  library.impl("left_pad", TORCH_BOX(&left_pad_op<Device>));
  library.impl("expand_drafts", TORCH_BOX(&expand_drafts_op<Device>));
  library.impl("acceptance_length", TORCH_BOX(&acceptance_length_op<Device>));
}

}  // namespace molspec
