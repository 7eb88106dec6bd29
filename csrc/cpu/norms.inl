// Norms and log-softmax, row by row.

#include "cpu/constant.h"
#include "cpu/kernels.h"
#include "cpu/simd.h"

namespace molspec::cpu {
namespace {

// Rows that are normed together: a single one would wait for each of its sums.
constexpr int kNormRows = 4;

template <int kRows>
void layer_norm_rows(const NormProblem& problem, int64_t row) {
  const NormForm& form = problem.form;
  const auto value = [&](int r, int64_t i) {
    return load(problem.in + (row + r) * problem.stride + i);
  };
  f32x16 mean[kRows] = {}, squares[kRows] = {}, scale[kRows];
  if (!form.rms) {
    for (int64_t i = 0; i < problem.stride; i += kLanes)
      for (int r = 0; r < kRows; ++r) mean[r] = mean[r] + value(r, i);
    for (int r = 0; r < kRows; ++r)
      mean[r] = broadcast(sum_of_lanes(mean[r]) / static_cast<float>(form.size));
  }
  for (int64_t i = 0; i < form.size; i += kLanes) {
    const int left = static_cast<int>(form.size - i);
    for (int r = 0; r < kRows; ++r) {
      const f32x16 centred = keep_first(value(r, i) - mean[r], left, 0.0f);
      squares[r] = multiply_add(centred, centred, squares[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const float variance = sum_of_lanes(squares[r]) / form.divisor;
    const float root = __builtin_sqrtf(variance + form.eps) + form.deviation_eps;
    scale[r] = broadcast(1.0f / root);
  }
  for (int64_t i = 0; i < problem.stride; i += kLanes) {
    const f32x16 weight = load(problem.weight + i), bias = load(problem.bias + i);
    for (int r = 0; r < kRows; ++r) {
      const f32x16 normal = (value(r, i) - mean[r]) * scale[r];
      store(problem.out + (row + r) * problem.stride + i, multiply_add(normal, weight, bias));
    }
  }
}

void layer_norm(const NormProblem& problem) {
  in_tiles<kNormRows>(problem.rows, [&](int row, auto count) {
    layer_norm_rows<decltype(count)::value>(problem, row);
  });
}

void log_softmax_row(const LogSoftmaxProblem& problem, const float* in, float* out) {
  const float lowest = -3.0e38f;
  f32x16 highest = broadcast(lowest);
  for (int i = 0; i < problem.size; i += kLanes)
    highest = max(highest, keep_first(load(in + i), problem.size - i, lowest));
  const float top = max_of_lanes(highest);
  f32x16 total = {};
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
