// out = activation(in . weights + bias) * factor + residual: tiles of rows and columns whose sums
// stay in registers.

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
  static Sum zero() { return broadcast(0.0f); }
  struct Column {
    Column(const LinearProblem&, int64_t) {}
    f32x16 value(const LinearProblem&, int64_t, f32x16 sum) const { return sum; }
  };

  // sums += in[row][k] * column
  template <int kRows>
  static void add_products(const float* const* in, int k, const f32x16 (&column)[kTileVectors],
                           f32x16 (&sums)[kRows][kTileVectors]) {
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
// `offsets` subtracts the effect. Both may exceed 32 bits, their difference does not (ops/model.h).
struct Int8 {
  using Weight = int8_t;
  using Input = uint8_t;
  using Sum = i32x16;
  static constexpr int kStep = 4;
  static Sum zero() { return zeros(); }
  struct Column {
    f32x16 scales;
    i32x16 offsets;
    Column(const LinearProblem& problem, int64_t column)
        : scales(load(problem.scales + column)), offsets(load_integers(problem.offsets + column)) {}
    f32x16 value(const LinearProblem& problem, int64_t row, i32x16 sum) const {
      if (kByteOffset) sum = sum - offsets;
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

// A row's scale is a number only if all of its values are. A row's last bytes may overlap the next
// row's first ones, which are written later.
template <int kRows>
void round_rows_to_bytes(const LinearProblem& problem, int64_t row) {
  const int size = problem.in_size;
  const float* from = problem.in + row * problem.in_stride;
  f32x16 largest[kRows], total[kRows];
  for (int r = 0; r < kRows; ++r) largest[r] = total[r] = broadcast(0.0f);
  for (int i = 0; i < size; i += kLanes) {
    for (int r = 0; r < kRows; ++r) {
      const f32x16 value = keep_first(load(from + r * problem.in_stride + i), size - i, 0.0f);
      largest[r] = max(largest[r], max(value, broadcast(0.0f) - value));
      total[r] = total[r] + value;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const float most = max_of_lanes(largest[r]);
    const f32x16 steps = broadcast(most > 0 ? 127.0f / most : 0.0f);
    uint8_t* to = problem.rounded + (row + r) * size;
    for (int i = 0; i < size; i += kLanes) {
      const f32x16 value = load(from + r * problem.in_stride + i);
      store_as_bytes(to + i, value * steps);
    }
    problem.row_scales[row + r] = most / 127.0f + 0.0f * sum_of_lanes(total[r]);
  }
}

// Sums in registers, or in memory as tiles store them.
template <typename Sum, int kRows>
struct RegisterSums {
  static constexpr int rows = kRows;
  Sum sums[kRows][kTileVectors];
  Sum at(int row, int vector) const { return sums[row][vector]; }
};
struct StoredSums {
  int rows;
  const int32_t* sums;  // [rows, kPanelColumns]
  i32x16 at(int row, int vector) const {
    return load_integers(sums + row * kPanelColumns + vector * kLanes);
  }
};

// out = activation(sums + bias) * factor + residual, a column of registers at a time, so that the
// column's bias and scale are loaded once.
template <typename Type, f32x16 (*kActivation)(f32x16), typename Sums>
inline void finish_tile(const LinearProblem& problem, int64_t row, int64_t column,
                        const Sums& sums) {
  for (int v = 0; v < kTileVectors; ++v) {
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

  typename Type::Sum sums[kRows][kTileVectors];
  for (int i = 0; i < kRows; ++i)
    for (int v = 0; v < kTileVectors; ++v) sums[i][v] = Type::zero();
  for (int64_t step = 0; step < steps; ++step) {
    for (int v = 0; v < kTileVectors; ++v)
      __builtin_prefetch(reinterpret_cast<const char*>(weights) + kBytesAhead + v * 64);
    Type::template accumulate<kRows>(in, static_cast<int>(step) * Type::kStep, weights, sums);
    weights += kPanelColumns * Type::kStep;
  }
  RegisterSums<typename Type::Sum, kRows> whole;  // indexed, so not in registers above
  for (int i = 0; i < kRows; ++i)
    for (int v = 0; v < kTileVectors; ++v) whole.sums[i][v] = sums[i][v];

  finish<Type>(problem, row, static_cast<int64_t>(panel) * kPanelColumns + vector * kLanes, whole);
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

#if defined(__AMX_INT8__)
// AMX multiplies tiles of up to sixteen rows. Its sums of bytes are as exact as all others.

// Fewer rows read the weights once without tiles too, and wait for nothing else.
constexpr int kFewestTileRows = kTileRows + 1;
constexpr int kMostTileRows = 16;
constexpr int kTileBytes = 64;    // inner positions of a row of inputs
constexpr int kTileColumns = 16;  // of weights, each with four inner positions

// What the processor reads of the tiles' sizes. Tiles 0 to 3 have the sums of a panel's columns, 4
// inputs, 5 weights, 6 and 7 those of the last inner positions if they do not fill a tile.
struct alignas(64) TileSizes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};  // of a row
  uint8_t rows[16] = {};

  TileSizes(int row_count, int last_bytes) {
    for (int tile = 0; tile < 5; ++tile) set(tile, row_count, kTileBytes);
    set(5, kTileBytes / 4, kTileBytes);
    if (last_bytes == 0) return;
    set(6, row_count, last_bytes);
    set(7, last_bytes / 4, kTileBytes);
  }
  void set(int tile, int row_count, int row_bytes) {
    rows[tile] = static_cast<uint8_t>(row_count);
    bytes[tile] = static_cast<uint16_t>(row_bytes);
  }
};

constexpr int kFetched = kTileBytes * kPanelColumns / 4;

inline void fetch_ahead(const int8_t* weights) {
#pragma GCC unroll 16
  for (int byte = 0; byte < kFetched; byte += 64) __builtin_prefetch(weights + kBytesAhead + byte);
}

// sums[row, column] of one panel for the rows of a tile. The first tile of rows fetches weights
// ahead, little by little.
inline void sum_tiles(const uint8_t* in, int64_t in_size, const int8_t* weights, int32_t* sums,
                      bool fetches_ahead) {
  constexpr int kVector = kTileColumns * 4;
  constexpr int kStride = kPanelColumns * 4;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  int64_t k = 0;
  for (; k + kTileBytes <= in_size; k += kTileBytes) {
    const int8_t* from = weights + k * kPanelColumns;
    _tile_loadd(4, in + k, in_size);
    _tile_loadd(5, from, kStride);
    _tile_dpbusd(0, 4, 5);
    if (fetches_ahead) fetch_ahead(from);
    _tile_loadd(5, from + kVector, kStride);
    _tile_dpbusd(1, 4, 5);
    if (fetches_ahead) fetch_ahead(from + kFetched);
    _tile_loadd(5, from + 2 * kVector, kStride);
    _tile_dpbusd(2, 4, 5);
    if (fetches_ahead) fetch_ahead(from + 2 * kFetched);
    _tile_loadd(5, from + 3 * kVector, kStride);
    _tile_dpbusd(3, 4, 5);
    if (fetches_ahead) fetch_ahead(from + 3 * kFetched);
  }
  if (k < in_size) {
    const int8_t* from = weights + k * kPanelColumns;
    _tile_loadd(6, in + k, in_size);
    _tile_loadd(7, from, kStride);
    _tile_dpbusd(0, 6, 7);
    _tile_loadd(7, from + kVector, kStride);
    _tile_dpbusd(1, 6, 7);
    _tile_loadd(7, from + 2 * kVector, kStride);
    _tile_dpbusd(2, 6, 7);
    _tile_loadd(7, from + 3 * kVector, kStride);
    _tile_dpbusd(3, 6, 7);
  }
  _tile_stored(0, sums, kStride);
  _tile_stored(1, sums + kTileColumns, kStride);
  _tile_stored(2, sums + 2 * kTileColumns, kStride);
  _tile_stored(3, sums + 3 * kTileColumns, kStride);
}

// All tiles have the same number of rows, so that the processor is told their sizes once: the last
// one may begin with rows that are finished already.
void linear_in_tiles(const LinearProblem& problem) {
  const int tiles = (problem.rows + kMostTileRows - 1) / kMostTileRows;
  const int tile_rows = (problem.rows + tiles - 1) / tiles;
  const TileSizes sizes(tile_rows, problem.in_size % kTileBytes);
  asm volatile("" : : "r"(&sizes) : "memory");  // gcc's tile intrinsics do not say what they read
  _tile_loadconfig(&sizes);
  alignas(64) int32_t sums[kMostTileRows * kPanelColumns];
  for (int panel = 0; panel < problem.panels; ++panel) {
    const int64_t column = static_cast<int64_t>(panel) * kPanelColumns;
    const int8_t* weights = static_cast<const int8_t*>(problem.weights) + column * problem.in_size;
    for (int begin = 0; begin < problem.rows; begin += tile_rows) {
      const int left = problem.rows - begin;
      const int first = left < tile_rows ? problem.rows - tile_rows : begin;
      sum_tiles(Int8::input(problem, first), problem.in_size, weights, sums, begin == 0);
      const int count = left < tile_rows ? left : tile_rows;
      const int32_t* from = sums + (begin - first) * kPanelColumns;
      for (int vector = 0; vector < kPanelVectors; vector += kTileVectors)
        finish<Int8>(problem, begin, column + vector * kLanes,
                     StoredSums{count, from + vector * kLanes});
    }
  }
  _tile_release();
}
#endif

void linear_float32(const LinearProblem& problem) { linear<Float32>(problem); }

void linear_bfloat16(const LinearProblem& problem) {
  for (int64_t row = 0; row < problem.rows; ++row) {
    Bfloat16::round_row(problem.in + row * problem.in_stride, problem.in_size,
                        Bfloat16::input(problem, row));
  }
  linear<Bfloat16>(problem);
}

void linear_int8(const LinearProblem& problem) {
  in_tiles<kRoundedRows>(problem.rows, [&](int row, auto count) {
    round_rows_to_bytes<decltype(count)::value>(problem, row);
  });
#if defined(__AMX_INT8__)
  if (problem.rows >= kFewestTileRows) return linear_in_tiles(problem);
#endif
  linear<Int8>(problem);
}

}  // namespace
}  // namespace molspec::cpu
