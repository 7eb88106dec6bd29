// The operators of dense batches on CUDA tensors. They copy the values that they check to the host,
// which waits for the device.

#include "cuda/dense.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <numeric>
#include <vector>

#include "cuda/launch.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

void copy(const int64_t* from, int64_t* to, int64_t count, cudaMemcpyKind kind,
          const Stream& stream) {
  check_cuda(cudaMemcpyAsync(to, from, count * sizeof(int64_t), kind, stream), "copy of values");
}

std::vector<int64_t> on_host(const int64_t* values, int64_t count, const Stream& stream) {
  std::vector<int64_t> found(static_cast<size_t>(count));
  copy(values, found.data(), count, cudaMemcpyDeviceToHost, stream);
  check_cuda(cudaStreamSynchronize(stream), "copy of values");
  return found;
}

std::tuple<Tensor, Tensor> left_pad_op(const Tensor& token_ids, const Tensor& lengths,
                                       int64_t pad_id) {
  const Stream stream{{token_ids, "token_ids"}, {lengths, "lengths"}};
  LeftPadProblem problem = left_pad_check(token_ids, lengths, pad_id);
  std::vector<int64_t> values = on_host(problem.lengths, problem.row_count, stream);
  left_pad_measure(problem, values.data());
  std::exclusive_scan(values.begin(), values.end(), values.begin(), int64_t{0});
  const Tensor begins = torch::stable::new_empty(lengths, {problem.row_count});
  auto* data = static_cast<int64_t*>(begins.data_ptr());
  copy(values.data(), data, problem.row_count, cudaMemcpyHostToDevice, stream);
  auto results = left_pad_results(problem, token_ids);
  left_pad(problem, data, stream);
  return results;
}

std::tuple<Tensor, Tensor, Tensor> expand_drafts_op(const Tensor& token_ids,
                                                    const Tensor& position_offsets,
                                                    const Tensor& query_indices,
                                                    const Tensor& draft_ids) {
  const Stream stream{{token_ids, "token_ids"},
                      {position_offsets, "position_offsets"},
                      {query_indices, "query_indices"},
                      {draft_ids, "draft_ids"}};
  ExpandDraftsProblem problem =
      expand_drafts_check(token_ids, position_offsets, query_indices, draft_ids);
  expand_drafts_values(problem,
                       on_host(problem.query_indices, problem.hypothesis_count, stream).data());
  auto results = expand_drafts_results(problem, token_ids);
  expand_drafts(problem, stream);
  return results;
}

Tensor acceptance_length_op(const Tensor& draft_ids, const Tensor& draft_lengths,
                            const Tensor& predicted_ids) {
  const Stream stream{
      {draft_ids, "draft_ids"}, {draft_lengths, "draft_lengths"}, {predicted_ids, "predicted_ids"}};
  AcceptanceLengthProblem problem =
      acceptance_length_check(draft_ids, draft_lengths, predicted_ids);
  acceptance_length_values(problem,
                           on_host(problem.draft_lengths, problem.row_count, stream).data());
  Tensor accepted = acceptance_length_result(problem, draft_ids);
  acceptance_length(problem, stream);
  return accepted;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("left_pad", TORCH_BOX(&left_pad_op));
  library.impl("expand_drafts", TORCH_BOX(&expand_drafts_op));
  library.impl("acceptance_length", TORCH_BOX(&acceptance_length_op));
}

}  // namespace molspec::cuda
