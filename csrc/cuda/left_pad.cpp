// left_pad: its output's width is data, so the operator waits for the device once.

#include "ops/left_pad.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

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

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("left_pad", TORCH_BOX(&left_pad_op));
}

}  // namespace molspec::cuda
