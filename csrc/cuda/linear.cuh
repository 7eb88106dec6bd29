// out = activation(norm(in) . weights + bias) * factor + norm(residual), and keys and values into a
// cache.
//
// Row-invariant: the inner dimension is cut into kChunks chunks whose borders depend on its size
// alone; a chunk is summed in ascending order in one chain (float32) or in one chain of matrix
// instructions of 16 (16-bit weights); the chunks are added in order. Two kernels share that sum:
//   narrow  a block owns 16 rows x 8 columns, and its warp w chunk w: many small blocks, each with
//           all its weights in flight at once, for steps of few rows
//   wide    a block owns 64 rows x 64 columns, and a warp 16 x 32 of them, chunk by chunk: weights
//           are read a quarter as often, for encoders and large batches
// A linear's input or residual may have a norm on it that nobody has applied yet: the block
// computes mean and deviation of its rows first, so that no kernel is needed between two linears.

#pragma once

#include "cuda/matrix.cuh"
#include "cuda/rows.h"
#include "cuda/warp.cuh"

namespace molspec::cuda {

constexpr int kChunks = 8;
constexpr int kLinearThreads = kChunks * kWarp;
constexpr int kTileRows = 16;
constexpr int kTileColumns = 8;
constexpr int kStep = 16;  // inner positions of a matrix instruction
constexpr int kPanel = 64;

struct NormInput {
  LayerNorm norm;  // weight is null where there is nothing to apply
  const float* rows;
  int64_t stride;
};

struct LinearProblem {
  const Status* status;
  const Row* rows;
  Linear linear;
  NormInput in;
  NormInput residual;  // rows is null where there is none
  int norm_size;       // columns of a normalised row that count
  float norm_eps;
  bool rms_norm;
  Activation activation;
  const float* factor;  // [rows, out_stride], or null; may be `out`
  float* out;           // [rows, out_stride]
  int64_t out_stride;
  // Columns [key_column, key_column + 2 * width) are keys and values of the row's slot: they go to
  // the cache and not to `out`. base is null where there are none.
  LayerCache cache;
  int key_column, width;
};

struct Moments {
  float mean, scale;
};

inline __device__ float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kRelu:
      return fmaxf(x, 0.0f);
    case Activation::kGelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case Activation::kSilu:
      return x / (1.0f + expf(-x));
    case Activation::kGeluTanh:  // x * (1 + tanh(u)) / 2 = x / (1 + exp(-2 u))
      return x / (1.0f + expf(x * fmaf(-0.0713548163f, x * x, -1.59576912f)));
    default:
      return x;
  }
}

// Mean, 0 of an RMS norm, and 1 / deviation of one row, by one warp. Lane l owns columns l, l + 32,
// ...
inline __device__ Moments row_moments(const float* row, int size, float eps, bool rms) {
  float mean = 0.0f;
  if (!rms) {
    float total = 0.0f;
    for (int i = lane_index(); i < size; i += kWarp) total += row[i];
    mean = warp_sum(total) / static_cast<float>(size);
  }
  float squares = 0.0f;
  for (int i = lane_index(); i < size; i += kWarp)
    squares = fmaf(row[i] - mean, row[i] - mean, squares);
  const float variance = warp_sum(squares) / static_cast<float>(size);
  return {mean, 1.0f / sqrtf(variance + eps)};
}

inline __device__ float normalise(const NormInput& in, const Moments& moments, float value,
                                  int column) {
  if (!in.norm.weight) return value;
  return fmaf((value - moments.mean) * moments.scale, in.norm.weight[column], in.norm.bias[column]);
}

// Fills moments[r] for the block's rows where a norm waits; all threads of the block call.
inline __device__ void block_moments(const LinearProblem& problem, int first_row, int rows,
                                     Moments* moments) {
  const NormInput& in = problem.in.norm.weight ? problem.in : problem.residual;
  if (!in.norm.weight) return;
  for (int r = warp_index(); r < rows; r += kLinearThreads / kWarp) {
    const Moments result = row_moments(in.rows + (first_row + r) * in.stride, problem.norm_size,
                                       problem.norm_eps, problem.rms_norm);
    if (lane_index() == 0) moments[r] = result;
  }
  __syncthreads();
}

// What a warp multiplies: its 16 rows, of which lane l reads g and g + 8.
struct RowTile {
  const LinearProblem& problem;
  const Moments* moments;  // of the tile's first row
  int first_row;
  int rows;  // how many there are; the matrix unit is given zeros behind them

  // Input columns k and k + 1 of one row.
  __device__ float2 input(int row, int k) const {
    if (row >= rows) return make_float2(0.0f, 0.0f);
    const float2 value = *reinterpret_cast<const float2*>(
        problem.in.rows + (first_row + row) * problem.in.stride + k);
    return make_float2(normalise(problem.in, moments[row], value.x, k),
                       normalise(problem.in, moments[row], value.y, k + 1));
  }
};

// Weights of 16 bits, [panel, in / 2, 64, 2]: a column's pair of inner positions is one word, as
// the matrix unit takes it.
template <typename Type>
struct PairedWeights {
  static __device__ RowFragment rows(const RowTile& tile, int k, int in_size) {
    const int g = lane_index() / 4;
    RowFragment fragment{0, 0, 0, 0};
    if (k < in_size) {
      const float2 upper = tile.input(g, k), lower = tile.input(g + 8, k);
      fragment.low = Type::pair(upper.x, upper.y);
      fragment.low8 = Type::pair(lower.x, lower.y);
    }
    if (k + 8 < in_size) {
      const float2 upper = tile.input(g, k + 8), lower = tile.input(g + 8, k + 8);
      fragment.high = Type::pair(upper.x, upper.y);
      fragment.high8 = Type::pair(lower.x, lower.y);
    }
    return fragment;
  }

  // sums[j] += the tile's rows x columns [column + 8 j, + 8) over steps [step, end)
  template <int kTiles>
  static __device__ void multiply_add(const RowTile& tile, int panel, int column, int step, int end,
                                      float (&sums)[kTiles][4]) {
    const int in_size = static_cast<int>(tile.problem.linear.in_size);
    const int g = lane_index() / 4, q = lane_index() % 4;
    const unsigned* weights = static_cast<const unsigned*>(tile.problem.linear.weights) +
                              static_cast<int64_t>(panel) * (in_size / 2) * kPanel + column + g;
#pragma unroll 4
    for (; step < end; ++step) {
      const int k = step * kStep + 2 * q;
      const RowFragment a = rows(tile, k, in_size);
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const unsigned* word = weights + k / 2 * kPanel + j * kTileColumns;
        const ColumnFragment b{k < in_size ? word[0] : 0, k + 8 < in_size ? word[4 * kPanel] : 0};
        Type::multiply_add(a, b, sums[j]);
      }
    }
  }
};

// float32 weights, [panel, in, 64]. Lanes own the same sums as with the matrix unit.
struct Float32Weights {
  template <int kTiles>
  static __device__ void multiply_add(const RowTile& tile, int panel, int column, int step, int end,
                                      float (&sums)[kTiles][4]) {
    const int in_size = static_cast<int>(tile.problem.linear.in_size);
    const int g = lane_index() / 4, q = lane_index() % 4;
    const float* weights = static_cast<const float*>(tile.problem.linear.weights) +
                           static_cast<int64_t>(panel) * in_size * kPanel + column + 2 * q;
    const int last = end * kStep < in_size ? end * kStep : in_size;
#pragma unroll 2
    for (int k = step * kStep; k < last; k += 2) {
      const float2 upper = tile.input(g, k), lower = tile.input(g + 8, k);
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const float* at = weights + k * kPanel + j * kTileColumns;
        const float2 first = *reinterpret_cast<const float2*>(at);
        const float2 second = *reinterpret_cast<const float2*>(at + kPanel);
        sums[j][0] = fmaf(upper.y, second.x, fmaf(upper.x, first.x, sums[j][0]));
        sums[j][1] = fmaf(upper.y, second.y, fmaf(upper.x, first.y, sums[j][1]));
        sums[j][2] = fmaf(lower.y, second.x, fmaf(lower.x, first.x, sums[j][2]));
        sums[j][3] = fmaf(lower.y, second.y, fmaf(lower.x, first.y, sums[j][3]));
      }
    }
  }
};

// Where chunk c of an inner dimension begins, in steps.
inline __device__ int chunk_begin(const Linear& linear, int chunk) {
  const int steps = (static_cast<int>(linear.in_size) + kStep - 1) / kStep;
  return steps * chunk / kChunks;
}

// Keys [column, 16 positions] and values [16 positions, column] of one block.
inline __device__ void store_key_value(const LinearProblem& problem, int32_t slot, int column,
                                       float value) {
  if (slot < 0) return;
  float* block = problem.cache.base + slot / 16 * problem.cache.block_stride;
  const int lane = slot % 16;
  if (column < problem.width) {
    block[column * 16 + lane] = value;
  } else if (column < 2 * problem.width) {
    block[problem.width * 16 + lane * problem.width + column - problem.width] = value;
  }
}

// What becomes of one finished sum. `moments` is that of the row.
inline __device__ void finish(const LinearProblem& problem, int row, int column, float sum,
                              const Moments& moments) {
  float value = activate(problem.activation, sum + problem.linear.bias[column]);
  if (problem.cache.base && column >= problem.key_column)
    return store_key_value(problem, problem.rows[row].slot, column - problem.key_column, value);
  if (problem.factor) value *= problem.factor[row * problem.out_stride + column];
  if (problem.residual.rows) {
    const float before = problem.residual.rows[row * problem.residual.stride + column];
    value += normalise(problem.residual, moments, before, column);
  }
  problem.out[row * problem.out_stride + column] = value;
}

// Block (c, r): columns [8 c, + 8) of rows [16 r, + 16). Warp w sums chunk w; thread t < 128 then
// adds the chunks of row t / 8, column t % 8.
template <typename Weights>
__global__ void __launch_bounds__(kLinearThreads) linear_narrow(LinearProblem problem) {
  __shared__ Moments moments[kTileRows];
  __shared__ float parts[kChunks][kTileRows][kTileColumns];
  const int first_row = blockIdx.y * kTileRows, first_column = blockIdx.x * kTileColumns;
  const int rows = min(kTileRows, problem.status->row_count - first_row);
  if (rows <= 0) return;
  block_moments(problem, first_row, rows, moments);

  const int chunk = warp_index(), g = lane_index() / 4, q = lane_index() % 4;
  const RowTile tile{problem, moments, first_row, rows};
  float sums[1][4] = {};
  Weights::template multiply_add<1>(tile, first_column / kPanel, first_column % kPanel,
                                    chunk_begin(problem.linear, chunk),
                                    chunk_begin(problem.linear, chunk + 1), sums);
  parts[chunk][g][2 * q] = sums[0][0];
  parts[chunk][g][2 * q + 1] = sums[0][1];
  parts[chunk][g + 8][2 * q] = sums[0][2];
  parts[chunk][g + 8][2 * q + 1] = sums[0][3];
  __syncthreads();

  const int row = threadIdx.x / kTileColumns, column = threadIdx.x % kTileColumns;
  if (row >= rows) return;
  float total = 0.0f;
  for (int c = 0; c < kChunks; ++c) total += parts[c][row][column];
  finish(problem, first_row + row, first_column + column, total, moments[row]);
}

constexpr int kWideRows = 64;
constexpr int kWideTiles = 4;  // of 8 columns, a warp

// Block (p, r): panel p of rows [64 r, + 64). Warp w owns rows 16 (w / 2) and columns 32 (w % 2).
template <typename Weights>
__global__ void __launch_bounds__(kLinearThreads) linear_wide(LinearProblem problem) {
  __shared__ Moments moments[kWideRows];
  const int block_row = blockIdx.y * kWideRows;
  const int rows = min(kWideRows, problem.status->row_count - block_row);
  if (rows <= 0) return;
  block_moments(problem, block_row, rows, moments);

  const int warp_row = warp_index() / 2 * kTileRows, g = lane_index() / 4, q = lane_index() % 4;
  const int column = warp_index() % 2 * kWideTiles * kTileColumns;
  const RowTile tile{problem, moments + warp_row, block_row + warp_row, rows - warp_row};
  float totals[kWideTiles][4] = {};
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    float sums[kWideTiles][4] = {};
    Weights::template multiply_add<kWideTiles>(tile, blockIdx.x, column,
                                               chunk_begin(problem.linear, chunk),
                                               chunk_begin(problem.linear, chunk + 1), sums);
#pragma unroll
    for (int i = 0; i < kWideTiles * 4; ++i) totals[i / 4][i % 4] += sums[i / 4][i % 4];
  }
  const int panel_column = blockIdx.x * kPanel + column + 2 * q;
#pragma unroll
  for (int i = 0; i < kWideTiles * 4; ++i) {
    const int row = g + i % 4 / 2 * 8;
    if (row < tile.rows)
      finish(problem, tile.first_row + row, panel_column + i / 4 * kTileColumns + i % 2,
             totals[i / 4][i % 4], tile.moments[row]);
  }
}

}  // namespace molspec::cuda
