// Norms and log-softmax, row by row.

#include "cpu/kernels.h"
#include "cpu/simd.h"

namespace molspec::cpu {
namespace {

void layer_norm_row(const NormProblem& problem, const float* in, float* out) {
  const NormForm& form = problem.form;
  f32x16 mean = broadcast(0.0f);
  if (!form.rms) {
    f32x16 total = broadcast(0.0f);
    for (int64_t i = 0; i < problem.stride; i += kLanes) total = total + load(in + i);
    mean = broadcast(sum_of_lanes(total) / static_cast<float>(form.size));
  }
  f32x16 squares = broadcast(0.0f);
  for (int64_t i = 0; i < form.size; i += kLanes) {
    const int left = static_cast<int>(form.size - i);
    const f32x16 centred = keep_first(load(in + i) - mean, left, 0.0f);
    squares = multiply_add(centred, centred, squares);
  }
  const float variance = sum_of_lanes(squares) / form.divisor;
  const float root = __builtin_sqrtf(variance + form.eps) + form.deviation_eps;
  const f32x16 scale = broadcast(1.0f / root);
  for (int64_t i = 0; i < problem.stride; i += kLanes) {
    const f32x16 normal = (load(in + i) - mean) * scale;
    store(out + i, multiply_add(normal, load(problem.weight + i), load(problem.bias + i)));
  }
}

void layer_norm(const NormProblem& problem) {
  for (int64_t row = 0; row < problem.rows; ++row)
    layer_norm_row(problem, problem.in + row * problem.stride, problem.out + row * problem.stride);
}

void log_softmax_row(const LogSoftmaxProblem& problem, const float* in, float* out) {
  const float lowest = -3.0e38f;
  f32x16 highest = broadcast(lowest);
  for (int i = 0; i < problem.size; i += kLanes)
    highest = max(highest, keep_first(load(in + i), problem.size - i, lowest));
  const float top = max_of_lanes(highest);
  f32x16 total = broadcast(0.0f);
  for (int i = 0; i < problem.size; i += kLanes) {
    const f32x16 weight = exponential(load(in + i) - broadcast(top));
    total = total + keep_first(weight, problem.size - i, 0.0f);
  }
  const float log_total = static_cast<float>(log(static_cast<double>(sum_of_lanes(total))));
  for (int i = 0; i < problem.size; ++i) out[i] = (in[i] - top) - log_total;
}

void log_softmax(const LogSoftmaxProblem& problem) {
  for (int64_t row = 0; row < problem.rows; ++row)
    log_softmax_row(problem, problem.in + row * problem.in_stride,
                    problem.out + row * problem.size);
}

}  // namespace
}  // namespace molspec::cpu
