// Launching kernels and moving small results, every call checked.

#pragma once

#include <cuda_runtime.h>

#include "ops/refuse.h"

namespace molspec::cuda {

inline void check_cuda(cudaError_t status, const char* what) {
  check(status == cudaSuccess, "CUDA: ", what, ": ", cudaGetErrorString(status));
}

// A property of the current device.
inline int device_attribute(cudaDeviceAttr which) {
  int device, value;
  check_cuda(cudaGetDevice(&device), "device");
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "property of the device");
  return value;
}

// Whether a kernel may begin while those before it on the stream still run, as far as
// `wait_for_previous` (warp.cuh): programmatic dependent launch, of Hopper and later. A graph takes
// it over.
inline bool depends_on_previous() {
  return device_attribute(cudaDevAttrComputeCapabilityMajor) >= 9;
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
  cudaLaunchAttribute dependent{};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &dependent;
  config.numAttrs = depends_on_previous() ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}

// The same with blocks in a row.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), int64_t blocks, unsigned threads,
            cudaStream_t stream, Arguments... arguments) {
  launch(name, kernel, dim3(static_cast<unsigned>(blocks)), threads, stream, arguments...);
}

// Reads a value on the device after all earlier work on the stream. Into page-locked memory, one
// page a thread that is never freed: a copy into other memory would wait twice.
template <typename T>
T read_back(const T* from, cudaStream_t stream) {
  thread_local T* const image = [] {
    void* page;
    check_cuda(cudaMallocHost(&page, sizeof(T)), "page-locked memory");
    return static_cast<T*>(page);
  }();
  check_cuda(cudaMemcpyAsync(image, from, sizeof(T), cudaMemcpyDeviceToHost, stream), "read back");
  check_cuda(cudaStreamSynchronize(stream), "read back");
  return *image;
}

}  // namespace molspec::cuda
