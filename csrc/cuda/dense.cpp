// The operators of dense batches on CUDA tensors. Values on the device are checked there: kernels
// leave bad ones out, and the operators wait for the result of the check.

#include "cuda/dense.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "cuda/launch.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

// The lowest index of a bad value, written by kernels. Reading it waits for the device.
class FirstBad {
 public:
  // `like` is an int64 tensor of the device.
  FirstBad(const Tensor& like, cudaStream_t stream)
      : cell_(torch::stable::new_empty(like, {1})), stream_(stream) {
    check_cuda(cudaMemsetAsync(data(), 0xff, sizeof(FirstBadIndex), stream), "clear a flag");
  }

  FirstBadIndex* data() const { return static_cast<FirstBadIndex*>(cell_.data_ptr()); }

  // Throws if a kernel found an entry of `values` outside 0 to `most`.
  void check_none(const char* name, const int64_t* values, int64_t most) const {
    const FirstBadIndex found = read_back(data(), stream_);
    if (found == kNoneBad) return;
    check(false, name, "[", found, "] is ", read_back(values + found, stream_), ": expected 0 to ",
          most);
  }

 private:
  Tensor cell_;
  cudaStream_t stream_;
};

// Measures and checks: the width of left_pad's output depends on the data.
RowMeasure checked_measure(const LeftPadProblem& problem, int64_t* begins, RowMeasure* cell,
                           cudaStream_t stream) {
  left_pad_measure(problem, begins, cell, stream);
  const RowMeasure measure = read_back(cell, stream);
  check(measure.bad_row == problem.row_count, "lengths[", measure.bad_row, "] is ",
        measure.bad_length, ": expected 0 to ", problem.token_count);
  check(measure.total == problem.token_count, "lengths add up to ", measure.total,
        ": expected the ", problem.token_count, " of token_ids");
  return measure;
}

std::tuple<Tensor, Tensor> left_pad_op(const Tensor& token_ids, const Tensor& lengths,
                                       int64_t pad_id) {
  const Stream stream{{token_ids, "token_ids"}, {lengths, "lengths"}};
  LeftPadProblem problem = left_pad_check(token_ids, lengths, pad_id);
  constexpr int64_t kCellSize = sizeof(RowMeasure) / sizeof(int64_t);
  Tensor scratch = torch::stable::new_empty(lengths, {kCellSize + problem.row_count});
  int64_t* begins = static_cast<int64_t*>(scratch.data_ptr()) + kCellSize;
  auto* cell = static_cast<RowMeasure*>(scratch.data_ptr());
  problem.width = checked_measure(problem, begins, cell, stream).width;
  auto results = left_pad_results(problem, token_ids);
  left_pad(problem, begins, stream);
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
  auto results = expand_drafts_results(problem, token_ids);
  const FirstBad first_bad(query_indices, stream);
  expand_drafts(problem, first_bad.data(), stream);
  first_bad.check_none("query_indices", problem.query_indices, problem.query_count - 1);
  return results;
}

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
  library.impl("left_pad", TORCH_BOX(&left_pad_op));
  library.impl("expand_drafts", TORCH_BOX(&expand_drafts_op));
  library.impl("acceptance_length", TORCH_BOX(&acceptance_length_op));
}

}  // namespace molspec::cuda
