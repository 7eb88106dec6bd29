// The device of an operator's tensors and torch's current stream there.

#pragma once

#include <cuda_runtime.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>

#include "ops/check.h"

// The dispatch key of every operator in this folder.
#define MOLSPEC_DEVICE CUDA

namespace molspec::cuda {

using DeviceGuard = torch::stable::accelerator::DeviceGuard;

// Makes the device of its first tensor the current one during its lifetime.
class Stream {
 public:
  Stream(const Tensor& first, const char* name)
      : first_(name), device_(first.get_device_index()), guard_(device_) {
    check_here(first, name);
    void* stream;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device_, &stream));
    stream_ = static_cast<cudaStream_t>(stream);
  }
  Stream(std::initializer_list<Argument> tensors)
      : Stream(tensors.begin()->tensor, tensors.begin()->name) {
    for (const Argument& argument : tensors) check_here(argument.tensor, argument.name);
  }

  // Throws if a tensor is on another device than the first.
  void check_here(const Tensor& tensor, const char* name) const {
    check(tensor.is_cuda() && tensor.get_device_index() == device_, name,
          " is not on cuda:", device_, ", where ", first_, " is");
  }
  // `checked_data` of a tensor on this device.
  template <typename T>
  T* data(const Tensor& tensor, const char* name, int64_t dimensions) const {
    check_here(tensor, name);
    return checked_data<T>(tensor, name, dimensions);
  }
  operator cudaStream_t() const { return stream_; }

 private:
  const char* first_;  // its name
  int32_t device_;
  DeviceGuard guard_;
  cudaStream_t stream_;
};

}  // namespace molspec::cuda
