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
// A linear's input or residual may have a norm that is not applied yet: the block first computes
// the mean and deviation of its rows, so that no kernel is needed between two linears.

#pragma once

#include "cuda/engine/operands.cuh"

namespace molspec::cuda {

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
    case Activation::kNone:
      break;
  }
  return x;
}

// Computes moments[r] for the kRows rows of a block, absent or not, if there is a norm to apply;
// all threads of the block call.
template <int kRows>
__device__ void block_moments(const LinearProblem& problem, int first_row, Moments* moments) {
  const NormInput& in = problem.in.norm.weight ? problem.in : problem.residual;
  if (!in.norm.weight) return;
  constexpr int kTogether = 2, kWarps = kLinearThreads / kWarp;
  for (int first = warp_index(); first < kRows; first += kTogether * kWarps) {
    const float* rows[kTogether];
    for (int r = 0; r < kTogether; ++r)
      rows[r] = in.rows + min(first_row + first + r * kWarps, problem.row_limit - 1) * in.stride;
    const Moments result = row_moments(rows, problem.norm_form);
    if (lane_index() < kTogether) moments[first + lane_index() * kWarps] = result;
  }
  __syncthreads();
}

// The first position of a chunk of an inner dimension.
inline __device__ int chunk_begin(const Linear& linear, int chunk) {
  const int steps = (static_cast<int>(linear.in_size) + kStep - 1) / kStep;
  return steps * chunk / kChunks * kStep;
}

// A chunk's sums, whose first batch is loaded already.
template <typename Batch, int kTiles>
__device__ void add_chunk(const Tile& tile, const Moments* moments, int count, int first, int end,
                          Batch& batch, float (&sums)[kTiles][4]) {
  for (;;) {
    batch.multiply_add(tile, moments, count, first, end, sums);
    first += Batch::kInner;
    if (first >= end) return;
    batch.load_weights(tile, first, end);
    batch.load_rows(tile, first, end);
  }
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

// The values that are combined with a finished sum, loaded before it is finished.
struct Ending {
  float bias = 0, factor = 0, residual = 0;
  float norm_weight = 0, norm_bias = 0;  // of the residual
  int32_t slot = 0;

  __device__ void load(const LinearProblem& problem, int row, int column) {
    // An absent row has no ending: its memory may be written already.
    if (row >= problem.row_limit) return;
    bias = problem.linear.bias[column];
    if (problem.factor) factor = problem.factor[row * problem.out_stride + column];
    if (problem.cache.base) slot = problem.rows[row].slot;
    if (!problem.residual.rows) return;
    residual = problem.residual.rows[row * problem.residual.stride + column];
    if (!problem.residual.norm.weight) return;
    norm_weight = problem.residual.norm.weight[column];
    norm_bias = problem.residual.norm.bias[column];
  }
};

// Stores one finished sum. `moments` is that of the row.
inline __device__ void finish(const LinearProblem& problem, int row, int column, float sum,
                              const Ending& ending, const Moments& moments) {
  float value = activate(problem.activation, sum + ending.bias);
  if (problem.cache.base && column >= problem.key_column)
    return store_key_value(problem, ending.slot, column - problem.key_column, value);
  if (problem.factor) value *= ending.factor;
  if (problem.residual.rows) {
    float before = ending.residual;
    if (problem.residual.norm.weight)
      before = fmaf((before - moments.mean) * moments.scale, ending.norm_weight, ending.norm_bias);
    value += before;
  }
  problem.out[row * problem.out_stride + column] = value;
}

// Block (c, r): columns [8 c, + 8) of rows [16 r, + 16). Warp w sums chunk w; thread t < 128 then
// adds the chunks of row t / 8, column t % 8. Weights are loaded while the kernels before are still
// running; then the loads of rows are issued before the first wait, even for the number of rows.
template <typename Weights, bool kNormed>
__global__ void __launch_bounds__(kLinearThreads, 2) linear_narrow(LinearProblem problem) {
  __shared__ Moments moments[kTileRows];
  __shared__ float parts[kChunks][kTileRows][kTileColumns];
  const int first_row = blockIdx.y * kTileRows, first_column = blockIdx.x * kTileColumns;
  const int row = threadIdx.x / kTileColumns, column = threadIdx.x % kTileColumns;
  const int chunk = warp_index(), g = lane_index() / 4, q = lane_index() % 4;
  const int begin = chunk_begin(problem.linear, chunk);
  const int end = chunk_begin(problem.linear, chunk + 1);
  const Tile tile{problem, first_row, first_column / kPanel, first_column % kPanel};
  typename Weights::template Batch<kNormed, 1> batch;
  allow_next();
  batch.load_weights(tile, begin, end);
  wait_for_previous();
  batch.load_rows(tile, begin, end);
  Ending ending;
  if (row < kTileRows) ending.load(problem, first_row + row, first_column + column);
  const int row_count = problem.status->row_count;
  block_moments<kTileRows>(problem, first_row, moments);
  // Not earlier: loads after a branch would wait for its condition.
  const int rows = min(kTileRows, row_count - first_row);
  if (rows <= 0) return;

  float sums[1][4] = {};
  add_chunk(tile, moments, rows, begin, end, batch, sums);
  parts[chunk][g][2 * q] = sums[0][0];
  parts[chunk][g][2 * q + 1] = sums[0][1];
  parts[chunk][g + 8][2 * q] = sums[0][2];
  parts[chunk][g + 8][2 * q + 1] = sums[0][3];
  __syncthreads();

  if (row >= rows) return;
  float total = 0.0f;
  for (int c = 0; c < kChunks; ++c) total += parts[c][row][column];
  finish(problem, first_row + row, first_column + column, total, ending, moments[row]);
}

constexpr int kWideRows = 64;
constexpr int kWideTiles = 4;  // of 8 columns, a warp

// Block (p, r): panel p of rows [64 r, + 64). Warp w owns rows 16 (w / 2) and columns 32 (w % 2).
template <typename Weights, bool kNormed>
__global__ void __launch_bounds__(kLinearThreads, 2) linear_wide(LinearProblem problem) {
  __shared__ Moments moments[kWideRows];
  await_previous();
  const int block_row = blockIdx.y * kWideRows;
  const int rows = min(kWideRows, problem.status->row_count - block_row);
  if (rows <= 0) return;
  const int warp_row = warp_index() / 2 * kTileRows, g = lane_index() / 4, q = lane_index() % 4;
  const int column = warp_index() % 2 * kWideTiles * kTileColumns;
  const int panel = blockIdx.x, count = rows - warp_row;
  const Tile tile{problem, block_row + warp_row, panel, column};
  block_moments<kWideRows>(problem, block_row, moments);
  typename Weights::template Batch<kNormed, kWideTiles> batch;
  float totals[kWideTiles][4] = {};
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    float sums[kWideTiles][4] = {};
    const int begin = chunk_begin(problem.linear, chunk);
    const int end = chunk_begin(problem.linear, chunk + 1);
    batch.load_weights(tile, begin, end);
    batch.load_rows(tile, begin, end);
    add_chunk(tile, moments + warp_row, count, begin, end, batch, sums);
#pragma unroll
    for (int i = 0; i < kWideTiles * 4; ++i) totals[i / 4][i % 4] += sums[i / 4][i % 4];
  }
#pragma unroll
  for (int j = 0; j < kWideTiles; ++j) {
    Ending endings[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = panel * kPanel + column + j * kTileColumns + 2 * q + i % 2;
      endings[i].load(problem, tile.first_row + g + i / 2 * 8, at);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = g + i / 2 * 8;
      const int at = panel * kPanel + column + j * kTileColumns + 2 * q + i % 2;
      if (row < count)
        finish(problem, tile.first_row + row, at, totals[j][i], endings[i],
               moments[warp_row + row]);
    }
  }
}

}  // namespace molspec::cuda
