// Operations of the 32 threads of a warp together. All of them must call.

#pragma once

#include <cuda_runtime.h>

namespace molspec::cuda {

constexpr int kWarp = 32;

inline __device__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarp; }
inline __device__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarp; }

// Begins a kernel: lets the next one of the stream begin too, and waits until those before it are
// done. What a launch with `depends_on_previous` may do before: read what no kernel writes.
inline __device__ void allow_next() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
inline __device__ void wait_for_previous() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
inline __device__ void await_previous() {
  allow_next();
  wait_for_previous();
}

// Returns the sums to every lane, each added as a balanced tree: 0 with 16, 1 with 17, and so on,
// then 0 with 8, and so on.
template <int kCount>
__device__ void warp_sums(float (&values)[kCount]) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    for (float& value : values) value += __shfl_xor_sync(~0U, value, distance);
}

inline __device__ float warp_sum(float value) {
  float values[1] = {value};
  warp_sums(values);
  return values[0];
}

inline __device__ float warp_max(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(~0U, value, distance));
  return value;
}

// Lanes stride over words; a lane loads eight before it writes one.
template <typename Word>
__device__ void copy_words(const Word* from, Word* to, int32_t count) {
  constexpr int kTogether = 8;
  for (int32_t begin = lane_index(); begin < count; begin += kTogether * kWarp) {
    Word words[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) words[i] = from[min(begin + i * kWarp, count - 1)];
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
      if (begin + i * kWarp < count) to[begin + i * kWarp] = words[i];
  }
}

}  // namespace molspec::cuda
