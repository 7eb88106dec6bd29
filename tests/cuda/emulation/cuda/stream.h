// Stands in for csrc/cuda/stream.h: tensors are on the CPU, and there is one stream.

#pragma once

#include <cuda_runtime.h>

#include <initializer_list>

#include "ops/check.h"

#define MOLSPEC_DEVICE CPU

namespace molspec::cuda {

struct DeviceGuard {
  explicit DeviceGuard(int32_t) {}
};

struct Argument {
  const Tensor& tensor;
  const char* name;
};

class Stream {
 public:
  Stream(const Tensor&, const char*) {}
  Stream(std::initializer_list<Argument>) {}
  template <typename T>
  T* data(const Tensor& tensor, const char* name, int64_t dimensions) const {
    return checked_data<T>(tensor, name, dimensions);
  }
  operator cudaStream_t() const { return nullptr; }
};

}  // namespace molspec::cuda
