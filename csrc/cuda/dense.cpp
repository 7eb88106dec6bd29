// The operators of dense batches on CUDA tensors. They copy the values that they check to the host,
// which waits for the device.

#include "cuda/dense.h"

#include <torch/csrc/stable/library.h>

#include <numeric>
#include <vector>

#include "cuda/launch.h"
#include "cuda/stream.h"
#include "ops/dense_operators.h"

namespace molspec::cuda {
namespace {

// The device of ops/dense_operators.h.
class DenseBatches {
 public:
  DenseBatches(std::initializer_list<Argument> arguments)
      : like_(arguments.begin()->tensor), stream_(arguments) {}

  const int64_t* on_host(const int64_t* values, int64_t count) {
    values_.resize(static_cast<size_t>(count));
    copy(values, values_.data(), count, cudaMemcpyDeviceToHost);
    check_cuda(cudaStreamSynchronize(stream_), "copy of values");
    return values_.data();
  }
  void left_pad(const LeftPadProblem& problem) {
    std::exclusive_scan(values_.begin(), values_.end(), values_.begin(), int64_t{0});
    int64_t* begins;
    const Tensor tensor = dense_result(like_, {problem.row_count}, begins);
    copy(values_.data(), begins, problem.row_count, cudaMemcpyHostToDevice);
    cuda::left_pad(problem, begins, stream_);
  }
  void expand_drafts(const ExpandDraftsProblem& problem) const {
    cuda::expand_drafts(problem, stream_);
  }
  void acceptance_length(const AcceptanceLengthProblem& problem) const {
    cuda::acceptance_length(problem, stream_);
  }

 private:
  void copy(const int64_t* from, int64_t* to, int64_t count, cudaMemcpyKind kind) const {
    check_cuda(cudaMemcpyAsync(to, from, count * sizeof(int64_t), kind, stream_), "copy of values");
  }

  const Tensor& like_;
  Stream stream_;
  std::vector<int64_t> values_;  // those that were copied last
};

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  implement_dense<DenseBatches>(library);
}

}  // namespace molspec::cuda
