// Layer norm and RMS norm, row by row.

#include "cpu/kernels.h"
#include "cpu/simd.h"

namespace molspec::cpu {
namespace {

void layer_norm_row(const NormProblem& problem, const float* in, float* out) {
  f32x16 mean = broadcast(0.0f);
  if (!problem.rms) {
    f32x16 total = broadcast(0.0f);
    for (int64_t i = 0; i < problem.stride; i += kLanes) total = total + load(in + i);
    mean = broadcast(sum_of_lanes(total) / static_cast<float>(problem.size));
  }
  f32x16 squares = broadcast(0.0f);
  for (int64_t i = 0; i < problem.size; i += kLanes) {
    const int left = static_cast<int>(problem.size - i);
    const f32x16 centred = keep_first(load(in + i) - mean, left, 0.0f);
    squares = multiply_add(centred, centred, squares);
  }
  const float variance = sum_of_lanes(squares) / static_cast<float>(problem.size);
  const f32x16 scale = broadcast(1.0f / __builtin_sqrtf(variance + problem.eps));
  for (int64_t i = 0; i < problem.stride; i += kLanes) {
    const f32x16 normal = (load(in + i) - mean) * scale;
    store(out + i, multiply_add(normal, load(problem.weight + i), load(problem.bias + i)));
  }
}

void layer_norm(const NormProblem& problem) {
  for (int64_t row = 0; row < problem.rows; ++row)
    layer_norm_row(problem, problem.in + row * problem.stride, problem.out + row * problem.stride);
}

}  // namespace
}  // namespace molspec::cpu
