// Launching kernels and moving small results, every call checked.

#pragma once

#include <cuda_runtime.h>

#include "ops/refuse.h"

namespace molspec::cuda {

inline void check_cuda(cudaError_t status, const char* what) {
  check(status == cudaSuccess, "CUDA: ", what, ": ", cudaGetErrorString(status));
}

// Launches nothing if there is no block. `name` is for the error.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 blocks, unsigned threads,
            cudaStream_t stream, Arguments... arguments) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(threads);
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}

// The same with blocks in a row.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), int64_t blocks, unsigned threads,
            cudaStream_t stream, Arguments... arguments) {
  launch(name, kernel, dim3(static_cast<unsigned>(blocks)), threads, stream, arguments...);
}

// Reads a value on the device after all earlier work on the stream.
template <typename T>
T read_back(const T* from, cudaStream_t stream) {
  T value;
  check_cuda(cudaMemcpyAsync(&value, from, sizeof(T), cudaMemcpyDeviceToHost, stream), "read back");
  check_cuda(cudaStreamSynchronize(stream), "read back");
  return value;
}

}  // namespace molspec::cuda
