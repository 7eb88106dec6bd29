// out = activation(in . weights + bias) * factor + residual: tiles of rows and columns whose sums
// stay in registers.

#pragma once

#include "cpu/constant.h"
#include "cpu/kernels.h"
#include "cpu/simd.h"

namespace molspec::cpu {
namespace {

// Rows and columns (in units of 16) whose sums stay in registers.
constexpr int kTileRows = 6;
#if defined(__AVX512F__)
constexpr int kTileVectors = 4;
#else
constexpr int kTileVectors = 1;
#endif
constexpr int kPanelVectors = kPanelColumns / kLanes;
// Weights come from the L3 cache, whose latency the processor's own prefetching does not hide.
constexpr int kBytesAhead = 4096;

f32x16 gelu(f32x16 a) {
  // x * (1 + erf(x / sqrt 2)) / 2 with erf of Abramowitz and Stegun 7.1.26 (error below 1.5e-7).
  const f32x16 one = broadcast(1.0f);
  const f32x16 x = a * broadcast(0.70710678f);
  const f32x16 magnitude = max(x, broadcast(0.0f) - x);
  const f32x16 t = one / multiply_add(broadcast(0.3275911f), magnitude, one);
  f32x16 p = broadcast(1.061405429f);
  p = multiply_add(p, t, broadcast(-1.453152027f));
  p = multiply_add(p, t, broadcast(1.421413741f));
  p = multiply_add(p, t, broadcast(-0.284496736f));
  p = multiply_add(p, t, broadcast(0.254829592f));
  const f32x16 tail = p * t * exponential(broadcast(0.0f) - magnitude * magnitude);
  // erfc(|x|) / 2 = tail / 2 is the weight of the negative side.
  const f32x16 half_tail = tail * broadcast(0.5f);
  return max(a, broadcast(0.0f)) - max(a, broadcast(0.0f) - a) * half_tail;
}

f32x16 silu(f32x16 a) { return a / (broadcast(1.0f) + exponential(broadcast(0.0f) - a)); }

// The approximation of gelu by x * (1 + tanh(u)) / 2, which is x / (1 + exp(-2 u)).
f32x16 gelu_tanh(f32x16 a) {
  const f32x16 slope = multiply_add(broadcast(-0.0713548163f), a * a, broadcast(-1.59576912f));
  return a / (broadcast(1.0f) + exponential(slope * a));
}

f32x16 relu(f32x16 a) { return max(broadcast(0.0f), a); }

f32x16 identity(f32x16 a) { return a; }

struct FloatSums {
  using Sum = f32x16;
  // What the sums of a column begin with.
  static Sum start(const LinearProblem&, int64_t) { return broadcast(0.0f); }
  struct Column {
    Column(const LinearProblem&, int64_t) {}
    f32x16 value(const LinearProblem&, int64_t, f32x16 sum) const { return sum; }
  };

  // sums += in[row][k] * column
  template <int kRows>
  static void add_products(const float* const* in, int k, const f32x16 (&column)[kTileVectors],
                           f32x16 (&sums)[kRows][kTileVectors]) {
#pragma GCC unroll 24
    for (int row = 0; row < kRows; ++row) {
      const f32x16 value = broadcast(in[row][k]);
      for (int v = 0; v < kTileVectors; ++v)
        sums[row][v] = multiply_add(value, column[v], sums[row][v]);
    }
  }
};

struct Float32 : FloatSums {
  using Weight = float;
  using Input = float;
  static constexpr int kStep = 1;  // inner positions a step consumes

  static const float* input(const LinearProblem& problem, int64_t row) {
    return problem.in + row * problem.in_stride;
  }
  template <int kRows>
  static void accumulate(const float* const* in, int k, const float* weights,
                         f32x16 (&sums)[kRows][kTileVectors]) {
    f32x16 column[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v) column[v] = load(weights + v * kLanes);
    add_products<kRows>(in, k, column, sums);
  }
};

uint16_t to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

#if defined(__AVX512BF16__)

struct Bfloat16 : FloatSums {
  using Weight = uint16_t;
  using Input = uint16_t;
  static constexpr int kStep = 2;

  static uint16_t* input(const LinearProblem& problem, int64_t row) {
    return reinterpret_cast<uint16_t*>(problem.rounded) + row * problem.in_size;
  }
  static void round_row(const float* from, int size, uint16_t* to) {
    int i = 0;
    for (; i + 32 <= size; i += 32) {
      const __m512bh pair =
          _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16), _mm512_loadu_ps(from + i));
      memcpy(to + i, &pair, sizeof(pair));
    }
    for (; i < size; ++i) to[i] = to_bfloat16(from[i]);
  }
  // sums += in[row][k + 1] * weights[k + 1][columns], then += in[row][k] * weights[k][columns]
  template <int kRows>
  static void accumulate(const uint16_t* const* in, int k, const uint16_t* weights,
                         f32x16 (&sums)[kRows][kTileVectors]) {
    __m512bh column[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v)
      memcpy(&column[v], weights + v * 2 * kLanes, sizeof(column[v]));
    for (int row = 0; row < kRows; ++row) {
      int32_t pair;
      memcpy(&pair, in[row] + k, sizeof(pair));
      const __m512i value = _mm512_set1_epi32(pair);
      for (int v = 0; v < kTileVectors; ++v)
        sums[row][v].a =
            _mm512_dpbf16_ps(sums[row][v].a, reinterpret_cast<const __m512bh&>(value), column[v]);
    }
  }
};

#else

float from_bfloat16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float wide;
  memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

// Adds in the order of the processor's bfloat16 instruction, and rounds like it, so that processors
// without it, or with a slow one, give the same bits.
struct Bfloat16 : FloatSums {
  using Weight = uint16_t;
  using Input = float;
  static constexpr int kStep = 2;

  static float* input(const LinearProblem& problem, int64_t row) {
    return reinterpret_cast<float*>(problem.rounded) + row * problem.in_size;
  }
  static void round_row(const float* from, int size, float* to) {
    for (int i = 0; i < size; ++i) to[i] = from_bfloat16(to_bfloat16(from[i]));
  }
  template <int kRows>
  static void accumulate(const float* const* in, int k, const uint16_t* weights,
                         f32x16 (&sums)[kRows][kTileVectors]) {
    f32x16 column[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v) column[v] = load_odd_bfloat16(weights + v * 2 * kLanes);
    add_products<kRows>(in, k + 1, column, sums);
    for (int v = 0; v < kTileVectors; ++v) column[v] = load_even_bfloat16(weights + v * 2 * kLanes);
    add_products<kRows>(in, k, column, sums);
  }
};

#endif

// Inputs are rounded row by row to 255 steps of row_scale; weights are rounded column by column.
// Sums of bytes are exact, so their order does not matter. Where inputs have kByteOffset added,
// sums start at minus its effect. They may exceed 32 bits on the way, not at the end (ops/model.h).
struct Int8 {
  using Weight = int8_t;
  using Input = uint8_t;
  using Sum = i32x16;
  static constexpr int kStep = 4;
  static Sum start(const LinearProblem& problem, int64_t column) {
    return kByteOffset ? zeros() - load_integers(problem.offsets + column) : zeros();
  }
  struct Column {
    f32x16 scales;
    Column(const LinearProblem& problem, int64_t column) : scales(load(problem.scales + column)) {}
    f32x16 value(const LinearProblem& problem, int64_t row, i32x16 sum) const {
      return as_floats(sum) * (broadcast(problem.row_scales[row]) * scales);
    }
  };
  static const uint8_t* input(const LinearProblem& problem, int64_t row) {
    return problem.rounded + row * problem.in_size;
  }
  template <int kRows>
  static void accumulate(const uint8_t* const* in, int k, const int8_t* weights,
                         i32x16 (&sums)[kRows][kTileVectors]) {
    i32x16 column[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v) column[v] = load_integers(weights + v * 4 * kLanes);
    for (int row = 0; row < kRows; ++row) {
      const i32x16 value = broadcast_bytes(in[row] + k);
      for (int v = 0; v < kTileVectors; ++v)
        sums[row][v] = add_products(sums[row][v], value, column[v]);
    }
  }
};

// Rows that are rounded together: a single one would wait for each of its sums.
constexpr int kRoundedRows = 4;
// A row without a number above it is rounded to zeros: 127 divided by little less is infinite.
constexpr float kMostSilent = 3.74e-37f;

// A row's scale is a number only if all of its values are. A row's last bytes may overlap the next
// row's first ones, which are written later.
template <int kRows>
void round_rows_to_bytes(const LinearProblem& problem, int64_t row) {
  const int size = problem.in_size;
  const float* from = problem.in + row * problem.in_stride;
  f32x16 largest[kRows] = {}, total[kRows] = {};
  for (int i = 0; i < size; i += kLanes) {
    for (int r = 0; r < kRows; ++r) {
      const f32x16 value = keep_first(load(from + r * problem.in_stride + i), size - i, 0.0f);
      largest[r] = max(largest[r], max(value, broadcast(0.0f) - value));
      total[r] = total[r] + value;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const float most = max_of_lanes(largest[r]);
    const f32x16 steps = broadcast(most > kMostSilent ? 127.0f / most : 0.0f);
    uint8_t* to = problem.rounded + (row + r) * size;
    const auto value = [&](int i) { return load(from + r * problem.in_stride + i) * steps; };
    int i = 0;
#if defined(__AVX512F__)
    for (; i + 4 * kLanes <= size; i += 4 * kLanes)
      store_as_bytes(to + i, value(i), value(i + kLanes), value(i + 2 * kLanes),
                     value(i + 3 * kLanes));
#endif
    for (; i < size; i += kLanes) store_as_bytes(to + i, value(i));
    problem.row_scales[row + r] = most / 127.0f + 0.0f * sum_of_lanes(total[r]);
  }
}

template <typename Sum, int kRows, int kVectors = kTileVectors>
struct RegisterSums {
  static constexpr int rows = kRows, vectors = kVectors;
  Sum sums[kRows][kVectors];
  Sum at(int row, int vector) const { return sums[row][vector]; }
};

// out = activation(sums + bias) * factor + residual, a column of registers at a time, so that the
// column's bias and scale are loaded once.
template <typename Type, f32x16 (*kActivation)(f32x16), typename Sums>
inline void finish_tile(const LinearProblem& problem, int64_t row, int64_t column,
                        const Sums& sums) {
  for (int v = 0; v < Sums::vectors; ++v) {
    const typename Type::Column of_column(problem, column + v * kLanes);
    const f32x16 bias = load(problem.bias + column + v * kLanes);
    for (int i = 0; i < sums.rows; ++i) {
      const int64_t at = (row + i) * problem.out_stride + column + v * kLanes;
      f32x16 value = kActivation(of_column.value(problem, row + i, sums.at(i, v)) + bias);
      if (problem.factor) value = value * load(problem.factor + at);
      if (problem.residual) value = value + load(problem.residual + at);
      store(problem.out + at, value);
    }
  }
}

template <typename Type, typename Sums>
__attribute__((always_inline)) inline void finish(const LinearProblem& problem, int64_t row,
                                                  int64_t column, const Sums& sums) {
  switch (problem.activation) {
    case Activation::kNone:
      return finish_tile<Type, identity>(problem, row, column, sums);
    case Activation::kRelu:
      return finish_tile<Type, relu>(problem, row, column, sums);
    case Activation::kGelu:
      return finish_tile<Type, gelu>(problem, row, column, sums);
    case Activation::kSilu:
      return finish_tile<Type, silu>(problem, row, column, sums);
    case Activation::kGeluTanh:
      return finish_tile<Type, gelu_tanh>(problem, row, column, sums);
  }
}

// Rows [row, row + kRows) of one panel's columns [vector * 16, (vector + kTileVectors) * 16).
template <typename Type, int kRows>
void linear_tile(const LinearProblem& problem, int panel, int vector, int64_t row) {
  const int64_t steps = (problem.in_size + Type::kStep - 1) / Type::kStep;
  const typename Type::Weight* weights =
      static_cast<const typename Type::Weight*>(problem.weights) +
      (panel * steps * kPanelColumns + vector * kLanes) * Type::kStep;
  const typename Type::Input* in[kRows];
  for (int i = 0; i < kRows; ++i) in[i] = Type::input(problem, row + i);

  const int64_t column = static_cast<int64_t>(panel) * kPanelColumns + vector * kLanes;
  typename Type::Sum sums[kRows][kTileVectors];
#pragma GCC unroll 24
  for (int v = 0; v < kTileVectors; ++v) {
    const typename Type::Sum first = Type::start(problem, column + v * kLanes);
    for (int i = 0; i < kRows; ++i) sums[i][v] = first;
  }
  for (int64_t step = 0; step < steps; ++step) {
    for (int v = 0; v < kTileVectors; ++v)
      __builtin_prefetch(reinterpret_cast<const char*>(weights) + kBytesAhead + v * 64);
    Type::template accumulate<kRows>(in, static_cast<int>(step) * Type::kStep, weights, sums);
    weights += kPanelColumns * Type::kStep;
  }
  RegisterSums<typename Type::Sum, kRows> whole;  // indexed, so not in registers above
#pragma GCC unroll 24
  for (int i = 0; i < kRows; ++i)
    for (int v = 0; v < kTileVectors; ++v) whole.sums[i][v] = sums[i][v];
  finish<Type>(problem, row, column, whole);
}

// The outer loop is over panels: a panel of weights is read from memory once and stays in cache.
template <typename Type>
void linear(const LinearProblem& problem) {
  for (int panel = 0; panel < problem.panels; ++panel) {
    for (int vector = 0; vector < kPanelVectors; vector += kTileVectors) {
      in_tiles<kTileRows>(problem.rows, [&](int row, auto count) {
        linear_tile<Type, decltype(count)::value>(problem, panel, vector, row);
      });
    }
  }
}

void linear_float32(const LinearProblem& problem) { linear<Float32>(problem); }

void linear_bfloat16(const LinearProblem& problem) {
  for (int64_t row = 0; row < problem.rows; ++row) {
    Bfloat16::round_row(problem.in + row * problem.in_stride, problem.in_size,
                        Bfloat16::input(problem, row));
  }
  linear<Bfloat16>(problem);
}

}  // namespace
}  // namespace molspec::cpu
