// Every dense kernel, written once. Compiled by kernels_<instruction set>.cpp, which defines
// MOLSPEC_KERNELS, the name of the table.

#include "cpu/kernels.h"
#include "cpu/simd.h"

namespace molspec::cpu {
namespace {

// ------------------------------------------------------------------------------------- linear

// Rows and columns (in units of 16) whose sums stay in registers.
constexpr int kTileRows = 6;
#if defined(__AVX512F__)
constexpr int kTileVectors = 4;
#else
constexpr int kTileVectors = 1;
#endif
constexpr int kPanelVectors = kPanelColumns / kLanes;

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

f32x16 relu(f32x16 a) { return max(a, broadcast(0.0f)); }

f32x16 identity(f32x16 a) { return a; }

struct Float32 {
  using Weight = float;
  using Input = float;
  static constexpr int kStep = 1;  // inner positions a step consumes

  static const float* input(const LinearProblem& problem, int64_t row) {
    return problem.in + row * problem.in_stride;
  }
  // sums += in[row][k] * weights[k][columns]
  template <int kRows>
  static void accumulate(const float* const* in, int k, const float* weights,
                         f32x16 (&sums)[kRows][kTileVectors]) {
    f32x16 column[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v) column[v] = load(weights + v * kLanes);
    for (int row = 0; row < kRows; ++row) {
      const f32x16 value = broadcast(in[row][k]);
      for (int v = 0; v < kTileVectors; ++v)
        sums[row][v] = multiply_add(value, column[v], sums[row][v]);
    }
  }
};

uint16_t to_bfloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

[[maybe_unused]] float from_bfloat16(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float wide;
  memcpy(&wide, &bits, sizeof(wide));
  return wide;
}

void round_row(const float* from, int size, uint16_t* to) {
  int i = 0;
#if defined(__AVX512BF16__)
  for (; i + 32 <= size; i += 32) {
    const __m512bh pair =
        _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16), _mm512_loadu_ps(from + i));
    memcpy(to + i, &pair, sizeof(pair));
  }
#endif
  for (; i < size; ++i) to[i] = to_bfloat16(from[i]);
}

struct Bfloat16 {
  using Weight = uint16_t;
  using Input = uint16_t;
  static constexpr int kStep = 2;

  static const uint16_t* input(const LinearProblem& problem, int64_t row) {
    return problem.scratch + row * problem.in_size;
  }
  // sums += in[row][k] * weights[k][columns] + in[row][k + 1] * weights[k + 1][columns]
  template <int kRows>
  static void accumulate(const uint16_t* const* in, int k, const uint16_t* weights,
                         f32x16 (&sums)[kRows][kTileVectors]) {
#if defined(__AVX512BF16__)
    __m512bh column[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v)
      memcpy(&column[v], weights + v * 2 * kLanes, sizeof(column[v]));
    for (int row = 0; row < kRows; ++row) {
      int32_t pair;
      memcpy(&pair, in[row] + k, sizeof(pair));
      const __m512i value = _mm512_set1_epi32(pair);
      for (int v = 0; v < kTileVectors; ++v)
        sums[row][v].value = _mm512_dpbf16_ps(sums[row][v].value,
                                              reinterpret_cast<const __m512bh&>(value), column[v]);
    }
#else
    f32x16 even[kTileVectors], odd[kTileVectors];
    for (int v = 0; v < kTileVectors; ++v)
      load_bfloat16_pairs(weights + v * 2 * kLanes, &even[v], &odd[v]);
    for (int row = 0; row < kRows; ++row) {
      const f32x16 first = broadcast(from_bfloat16(in[row][k]));
      const f32x16 second = broadcast(from_bfloat16(in[row][k + 1]));
      for (int v = 0; v < kTileVectors; ++v)
        sums[row][v] = multiply_add(second, odd[v], multiply_add(first, even[v], sums[row][v]));
    }
#endif
  }
};

// out = activation(sums + bias) + residual
template <f32x16 (*kActivation)(f32x16), int kRows>
inline void finish_tile(const LinearProblem& problem, int64_t row, int64_t column,
                        const f32x16 (&sums)[kRows][kTileVectors]) {
  f32x16 bias[kTileVectors];
  for (int v = 0; v < kTileVectors; ++v) bias[v] = load(problem.bias + column + v * kLanes);
  for (int i = 0; i < kRows; ++i) {
    const int64_t at = (row + i) * problem.out_stride + column;
    for (int v = 0; v < kTileVectors; ++v) {
      f32x16 value = kActivation(sums[i][v] + bias[v]);
      if (problem.residual) value = value + load(problem.residual + at + v * kLanes);
      store(problem.out + at + v * kLanes, value);
    }
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

  f32x16 sums[kRows][kTileVectors];
  for (int i = 0; i < kRows; ++i)
    for (int v = 0; v < kTileVectors; ++v) sums[i][v] = broadcast(0.0f);
  for (int64_t step = 0; step < steps; ++step) {
    Type::template accumulate<kRows>(in, static_cast<int>(step) * Type::kStep, weights, sums);
    weights += kPanelColumns * Type::kStep;
  }

  const int64_t column = static_cast<int64_t>(panel) * kPanelColumns + vector * kLanes;
  switch (problem.activation) {
    case Activation::kNone:
      return finish_tile<identity>(problem, row, column, sums);
    case Activation::kRelu:
      return finish_tile<relu>(problem, row, column, sums);
    case Activation::kGelu:
      return finish_tile<gelu>(problem, row, column, sums);
    case Activation::kSilu:
      return finish_tile<silu>(problem, row, column, sums);
  }
}

template <typename Type>
void linear_rows(const LinearProblem& problem, int panel, int vector, int64_t row, int rows) {
  switch (rows) {
    case 1:
      return linear_tile<Type, 1>(problem, panel, vector, row);
    case 2:
      return linear_tile<Type, 2>(problem, panel, vector, row);
    case 3:
      return linear_tile<Type, 3>(problem, panel, vector, row);
    case 4:
      return linear_tile<Type, 4>(problem, panel, vector, row);
    case 5:
      return linear_tile<Type, 5>(problem, panel, vector, row);
    default:
      return linear_tile<Type, 6>(problem, panel, vector, row);
  }
}

// Panels outside, rows inside: a panel of weights is read from memory once and stays in cache.
template <typename Type>
void linear(const LinearProblem& problem) {
  const int tiles = (problem.rows + kTileRows - 1) / kTileRows;
  for (int panel = 0; panel < problem.panels; ++panel) {
    for (int vector = 0; vector < kPanelVectors; vector += kTileVectors) {
      int row = 0;
      for (int tile = 0; tile < tiles; ++tile) {  // as even as can be: 8 rows are 4 + 4
        const int rows = (problem.rows - row + tiles - tile - 1) / (tiles - tile);
        linear_rows<Type>(problem, panel, vector, row, rows);
        row += rows;
      }
    }
  }
}

void linear_float32(const LinearProblem& problem) { linear<Float32>(problem); }

void linear_bfloat16(const LinearProblem& problem) {
  for (int64_t row = 0; row < problem.rows; ++row) {
    round_row(problem.in + row * problem.in_stride, problem.in_size,
              problem.scratch + row * problem.in_size);
  }
  linear<Bfloat16>(problem);
}

// --------------------------------------------------------------------------------- layer_norm

void layer_norm_row(const NormProblem& problem, const float* in, float* out) {
  f32x16 total = broadcast(0.0f);
  for (int64_t i = 0; i < problem.stride; i += kLanes) total = total + load(in + i);
  const f32x16 mean = broadcast(sum_of_lanes(total) / static_cast<float>(problem.size));
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

// ---------------------------------------------------------------------------------- attention

// Scores of one head against every position of its blocks, whether or not the row attends to it:
// a block's keys are stored column by column, so sixteen positions are one register.
template <int kBlocks>
void score_blocks(const AttentionProblem& problem, const float* query, int64_t head_offset,
                  const int32_t* blocks, float* scores) {
  const float* keys[kBlocks];
  f32x16 sums[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    keys[b] = problem.cache + blocks[b] * problem.block_stride + head_offset;
    sums[b] = broadcast(0.0f);
  }
  for (int column = 0; column < problem.head_stride; ++column) {
    const f32x16 value = broadcast(query[column]);
    for (int b = 0; b < kBlocks; ++b)
      sums[b] = multiply_add(value, load(keys[b] + column * kLanes), sums[b]);
  }
  for (int b = 0; b < kBlocks; ++b) store(scores + b * kLanes, sums[b]);
}

// Blocks are scored in groups: one sum alone would wait for each of its additions.
void score_head(const AttentionProblem& problem, const float* query, int head, const RowKeys& keys,
                float* scores) {
  constexpr int kMostBlocks = 6;
  const int64_t offset = static_cast<int64_t>(head) * problem.head_stride * kLanes;
  const int groups = (keys.block_count + kMostBlocks - 1) / kMostBlocks;
  int block = 0;
  for (int group = 0; group < groups; ++group) {
    const int count = (keys.block_count - block + groups - group - 1) / (groups - group);
    const int32_t* blocks = keys.blocks + block;
    float* out = scores + block * kLanes;
    switch (count) {
      case 1:
        score_blocks<1>(problem, query, offset, blocks, out);
        break;
      case 2:
        score_blocks<2>(problem, query, offset, blocks, out);
        break;
      case 3:
        score_blocks<3>(problem, query, offset, blocks, out);
        break;
      case 4:
        score_blocks<4>(problem, query, offset, blocks, out);
        break;
      case 5:
        score_blocks<5>(problem, query, offset, blocks, out);
        break;
      default:
        score_blocks<6>(problem, query, offset, blocks, out);
    }
    block += count;
  }
}

// weights[0..length) = exp(scale * (score - max)); returns 1 / their sum. Position t always falls
// in lane t mod 16, so the sum depends on the length and the values only.
float softmax_weights(const float* scores, const int32_t* lanes, int length, float scale,
                      float* weights) {
  if (lanes) {
    for (int t = 0; t < length; ++t) weights[t] = scores[lanes[t]];
    scores = weights;
  }
  const float lowest = -3.0e38f;
  f32x16 highest = broadcast(lowest);
  for (int t = 0; t < length; t += kLanes)
    highest = max(highest, keep_first(load(scores + t), length - t, lowest));
  const f32x16 top = broadcast(max_of_lanes(highest));
  f32x16 total = broadcast(0.0f);
  for (int t = 0; t < length; t += kLanes) {
    const f32x16 shifted = (load(scores + t) - top) * broadcast(scale);
    const f32x16 weight = keep_first(exponential(shifted), length - t, 0.0f);
    store(weights + t, weight);
    total = total + weight;
  }
  return 1.0f / sum_of_lanes(total);
}

// Columns whose sums over positions stay in registers.
#if defined(__AVX512F__)
constexpr int kValueVectors = 16;
#else
constexpr int kValueVectors = 4;
#endif

// out[columns] = sum over t of weights[head of column][t] * values[t][columns]
template <int kVectors>
void weigh_values(const AttentionProblem& problem, const RowKeys& keys, const float* weights,
                  int64_t weights_stride, const float* inverse, int column, float* out) {
  const int64_t width = static_cast<int64_t>(problem.head_count) * problem.head_stride;
  const int64_t values = width * kBlockPositions;
  const float* of_head[kVectors];
  for (int v = 0; v < kVectors; ++v)
    of_head[v] = weights + (column + v * kLanes) / problem.head_stride * weights_stride;
  f32x16 sums[kVectors];
  for (int v = 0; v < kVectors; ++v) sums[v] = broadcast(0.0f);
  for (int t = 0; t < keys.length; ++t) {
    const int lane = keys.lanes ? keys.lanes[t] : t;
    const float* row = problem.cache + keys.blocks[lane / kBlockPositions] * problem.block_stride +
                       values + (lane % kBlockPositions) * width + column;
    for (int v = 0; v < kVectors; ++v)
      sums[v] = multiply_add(broadcast(of_head[v][t]), load(row + v * kLanes), sums[v]);
  }
  for (int v = 0; v < kVectors; ++v) {
    const float scale = inverse[(column + v * kLanes) / problem.head_stride];
    store(out + column + v * kLanes, sums[v] * broadcast(scale));
  }
}

void attend_row(const AttentionProblem& problem, const float* query, const RowKeys& keys,
                float* out) {
  const int64_t stride = (keys.length + kLanes - 1) / kLanes * kLanes;
  float* weights = problem.scratch;  // [head, stride]
  const int64_t scored = static_cast<int64_t>(keys.block_count) * kBlockPositions;
  float* scores = weights + problem.head_count * stride;  // [head, scored]
  constexpr int kMostHeads = 64;
  float inverse[kMostHeads];
  for (int head = 0; head < problem.head_count; ++head)
    score_head(problem, query + head * problem.head_stride, head, keys, scores + head * scored);
  for (int head = 0; head < problem.head_count; ++head)
    inverse[head] = softmax_weights(scores + head * scored, keys.lanes, keys.length, problem.scale,
                                    weights + head * stride);
  const int width = problem.head_count * problem.head_stride;
  int column = 0;
  for (; column + kValueVectors * kLanes <= width; column += kValueVectors * kLanes)
    weigh_values<kValueVectors>(problem, keys, weights, stride, inverse, column, out);
  for (; column < width; column += kLanes)
    weigh_values<1>(problem, keys, weights, stride, inverse, column, out);
}

void attention(const AttentionProblem& problem) {
  for (int64_t row = 0; row < problem.rows; ++row)
    attend_row(problem, problem.query + row * problem.query_stride, problem.keys[row],
               problem.out + row * problem.out_stride);
}

// -------------------------------------------------------------------------------- log_softmax

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

#define MOLSPEC_TEXT(name) #name
#define MOLSPEC_NAME(name) MOLSPEC_TEXT(name)
#define MOLSPEC_TABLE(name) kernels_##name
#define MOLSPEC_SYMBOL(name) MOLSPEC_TABLE(name)

extern const Kernels MOLSPEC_SYMBOL(MOLSPEC_KERNELS);
const Kernels MOLSPEC_SYMBOL(MOLSPEC_KERNELS) = {MOLSPEC_NAME(MOLSPEC_KERNELS),
                                                 linear_float32,
                                                 linear_bfloat16,
                                                 layer_norm,
                                                 attention,
                                                 log_softmax};

}  // namespace molspec::cpu
