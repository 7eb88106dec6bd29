// Rotary positions (Su et al. 2021).

#include "cpu/kernels.h"

namespace molspec::cpu {
namespace {

// Nothing is summed and no product is fused, so every compiler gives the same bits.
void rotate(const RotationProblem& problem) {
  const int half = problem.columns / 2;
  for (int row = 0; row < problem.rows; ++row) {
    const int64_t position = problem.keys[row].position;
    const float* __restrict cosines = problem.table + position * problem.columns;
    const float* __restrict sines = cosines + half;
    for (int head = 0; head < problem.head_count; ++head) {
      float* __restrict left = problem.heads + row * problem.stride + head * problem.head_stride;
      float* __restrict right = left + half;
      for (int i = 0; i < half; ++i) {
        const float x = left[i], y = right[i];
        left[i] = x * cosines[i] - y * sines[i];
        right[i] = y * cosines[i] + x * sines[i];
      }
    }
  }
}

}  // namespace
}  // namespace molspec::cpu
