// Where an operator runs: the device of its tensors and torch's current stream there.

#pragma once

#include <cuda_runtime.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>

#include <initializer_list>
#include <vector>

#include "ops/check.h"

// The dispatch key of every operator in this folder.
#define MOLSPEC_DEVICE CUDA

namespace molspec::cuda {

struct Argument {
  const Tensor& tensor;
  const char* name;
};

// Makes the device of the first tensor the current one for as long as it lives. Throws where a
// tensor lies elsewhere.
class Stream {
 public:
  Stream(std::initializer_list<Argument> tensors) : Stream(std::vector<Argument>(tensors)) {}
  explicit Stream(const std::vector<Argument>& tensors)
      : device_(tensors.front().tensor.get_device_index()), guard_(device_) {
    for (const Argument& argument : tensors)
      check(argument.tensor.is_cuda() && argument.tensor.get_device_index() == device_,
            argument.name, " is not on cuda:", device_, ", where ", tensors.front().name, " is");
    void* stream;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device_, &stream));
    stream_ = static_cast<cudaStream_t>(stream);
  }
  operator cudaStream_t() const { return stream_; }

 private:
  int32_t device_;
  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_;
};

}  // namespace molspec::cuda
