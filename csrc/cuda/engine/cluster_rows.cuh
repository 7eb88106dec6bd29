// Rows of activations in a cluster of eight blocks: the residual stream, norms and linears of
// cluster_step.cuh.
//
// `whole` is a linear of rows that all blocks have: each computes its own columns. In `spread`
// every block has other inner positions, which are chunk b of linear.cuh: it sends the sums of its
// chunk to the owners of the rows, who add the chunks. So sums have the order, and results the
// bits, of linear.cuh.

#pragma once

#include "cuda/engine/cluster.cuh"
#include "cuda/engine/rows.cuh"

namespace molspec::cuda {

constexpr int kClusterThreads = 512, kClusterWarps = kClusterThreads / kWarp;
constexpr int kClusterWidth = 256;       // of activations and of attention
constexpr int kMostClusterInner = 1024;  // of the feed-forward layer
constexpr int kHeadColumns = kClusterWidth / kClusterBlocks;
constexpr int kGroupRows = 32, kOwnRows = kGroupRows / kClusterBlocks;
constexpr int kMostListed = 2048;      // rows of a cluster
constexpr int kMostClusterLayers = 6;  // older drivers take 4 KB of parameters
constexpr int kMostColumns = kMostClusterInner / kClusterBlocks;  // of a linear in a block
static_assert(kClusterBlocks == kChunks && kMostColumns >= 3 * kHeadColumns);

struct ClusterStepProblem {
  const Status* status;
  const Row* rows;
  const int32_t* path_slots;
  Memories memories;
  LayerCache self, memory;  // of the first layer
  int64_t layer_stride;     // floats of a cache from one layer to the next
  int layer_count;
  Layer layers[kMostClusterLayers];
  int64_t bias_stride;  // see AttentionProblem
  float scale;
  Activation activation;
  NormForm form;
  bool pre_norm, gated;
  const float *embedding, *positions;  // positions: or null
  LayerNorm embedding_norm, norm;      // of the stack; null if there is none
  const float* rotary;                 // see Model
  int rotary_columns;
  Linear output;
  float* logits;  // [rows, logits_stride]
  int logits_stride;
  float* hidden_states;  // [slot, kClusterWidth], or null
};
static_assert(sizeof(ClusterStepProblem) <= 4096);

// A row ends with a few columns that nothing reads, so that the rows of a column lie in different
// banks.
struct ClusterShared {
  Row rows[kGroupRows];
  float parts[kChunks][kTileRows][kMostColumns];          // of `whole`: sums of chunks
  alignas(16) float slice[kGroupRows][kMostColumns + 4];  // context or inner; then the query
  alignas(8) float arrived[kChunks][kOwnRows][kClusterWidth + 4];  // of `spread`
  alignas(8) float x[kOwnRows][kClusterWidth + 2];                 // the residual stream
  unsigned pairs[kGroupRows][kClusterWidth / 2 + 4];  // all rows as the matrix unit reads them
  alignas(16) float weights[kClusterWarps][kWarp];    // of attention, of a warp's lanes
  alignas(16) unsigned places[kClusterWarps][kWarp];  // of values
  int list[kMostListed];                              // the cluster's rows
  int warp_counts[kClusterWarps];
};
// No reference is kept: the compiler would lose track that the address is one of shared memory.
inline __device__ ClusterShared& shared() {
  return *reinterpret_cast<ClusterShared*>(dynamic_shared());
}
constexpr int kQueryColumn = 2 * kHeadColumns;  // of a slice

// A block's part of a group of rows, and what moves them between the blocks.
struct ClusterRows {
  const ClusterStepProblem& problem;
  int first_listed, count;  // the rows of the group
  int rank = 0, thread = 0;

  // Reads them again, so that what follows from them alone is computed again and not kept: it would
  // fill the registers.
  __device__ void locate() {
    thread = thread_index();
    rank = cluster_rank();
  }

  __device__ int lane() const { return thread % kWarp; }
  __device__ int warp() const { return thread / kWarp; }

  __device__ NormForm form() const {
    NormForm form = problem.form;
    form.size = kClusterWidth;  // which it is
    return form;
  }

  // The row of the group that is this block's row `own`.
  __device__ int row_of(int own) const { return own / 2 * kTileRows + rank * 2 + own % 2; }

  // A lane's words of kSteps steps of 16 inner positions from `begin` on, of tiles of 8 columns.
  template <int kSteps, int kTiles>
  __device__ void load(const Linear& linear, const int (&columns)[kTiles], int begin,
                       unsigned (&weights)[kSteps][kTiles][2]) const {
    const int g = lane() / 4, q = lane() % 4;
    const auto* words = static_cast<const unsigned*>(linear.weights);
    const int panel_words = static_cast<int>(linear.in_size) / 2 * kPanel;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const unsigned* from = words + columns[j] / kPanel * panel_words + (begin / 2 + q) * kPanel +
                             columns[j] % kPanel + g;
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) weights[i / 2][j][i % 2] = from[4 * i * kPanel];
    }
  }

  // sums += 16 rows, whose words are word(row, pair of inner positions), times the tiles' weights.
  template <int kSteps, int kTiles, typename Word>
  __device__ void multiply_add(const unsigned (&weights)[kSteps][kTiles][2], int begin, Word word,
                               float (&sums)[kTiles][4]) const {
    const int g = lane() / 4, q = lane() % 4;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int pair = begin / 2 + 8 * s + q;
      const RowFragment rows{word(g, pair), word(g + 8, pair), word(g, pair + 4),
                             word(g + 8, pair + 4)};
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
        Bfloat16::multiply_add(rows, {weights[s][j][0], weights[s][j][1]}, sums[j]);
    }
  }

  // Warp w sums chunk w % 8 of a half of the tiles. Then every thread adds the chunks of its
  // outputs. column_of(tile): its first column; emit(row, tile, column in it, sum with the bias).
  // Whoever reads what was emitted, or calls `whole` again, calls __syncthreads before. kReceives:
  // the rows were just sent; its weights are under way while it waits for them.
  template <int kTiles, bool kReceives, typename ColumnOf, typename Emit>
  __device__ void whole(const Linear& linear, ColumnOf column_of, Emit emit) {
    constexpr int kHalf = kTiles / 2, kColumns = kTiles * kTileColumns;
    constexpr int kOutputs = kTileRows * kColumns / kClusterThreads;
    constexpr int kChunk = kClusterWidth / kChunks;
    const int chunk = warp() % kChunks, first = warp() / kChunks * kHalf;
    const int g = lane() / 4, q = lane() % 4;
    int columns[kHalf];
#pragma unroll
    for (int j = 0; j < kHalf; ++j) columns[j] = column_of(first + j);
    unsigned weights[kChunk / kStep][kHalf][2];
    load(linear, columns, chunk * kChunk, weights);
    float biases[kOutputs];
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      const int column = (thread + i * kClusterThreads) % kColumns;
      biases[i] = linear.bias[column_of(column / kTileColumns) + column % kTileColumns];
    }
    if (kReceives) cluster_wait();
    for (int tile_row = 0; tile_row < count; tile_row += kTileRows) {
      float sums[kHalf][4] = {};
      multiply_add(
          weights, chunk * kChunk,
          [&](int row, int pair) { return shared().pairs[tile_row + row][pair]; }, sums);
      if (tile_row > 0) __syncthreads();  // the parts before have been read
#pragma unroll
      for (int i = 0; i < 2 * kHalf; ++i)
        *reinterpret_cast<float2*>(
            &shared().parts[chunk][g + i % 2 * 8][(first + i / 2) * kTileColumns + 2 * q]) =
            make_float2(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
        const int output = thread + i * kClusterThreads;
        const int row = output / kColumns, column = output % kColumns;
        if (tile_row + row >= count) continue;
        float total = 0.0f;
#pragma unroll
        for (int c = 0; c < kChunks; ++c) total += shared().parts[c][row][column];
        emit(tile_row + row, column / kTileColumns, column % kTileColumns, total + biases[i]);
      }
    }
  }

  // x += linear(slice)
  template <int kOwn>
  __device__ void spread(const Linear& linear) {
    locate();
    const int g = lane() / 4, q = lane() % 4;
    const int column = warp() * 2 * kTileColumns;
    const int columns[2] = {column, column + kTileColumns};
    unsigned weights[kOwn / kStep][2][2];
    load(linear, columns, rank * kOwn, weights);
    const int at = thread % kClusterWidth;
    const float bias = linear.bias[at];
    __syncthreads();  // the slice is written
    for (int tile_row = 0; tile_row < count; tile_row += kTileRows) {
      float sums[2][4] = {};
      const auto word = [&](int row, int pair) {
        const float* from = &shared().slice[tile_row + row][2 * pair];
        return Bfloat16::pair(from[0], from[1]);
      };
      multiply_add(weights, 0, word, sums);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = g + i % 2 * 8, own = tile_row / kTileRows * 2 + row % 2;
        float* const to = &shared().arrived[rank][own][column + i / 2 * kTileColumns + 2 * q];
        store_remote(reinterpret_cast<float2*>(to), row / 2,
                     make_float2(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]));
      }
    }
    cluster_sync();
    for (int own = thread / kClusterWidth; own < kOwnRows; own += 2) {
      if (row_of(own) >= count) continue;
      float total = 0.0f;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) total += shared().arrived[c][own][at];
      shared().x[own][at] = total + bias + shared().x[own][at];
    }
    __syncthreads();
  }

  // Sends this block's rows to all blocks, normed if there is a norm, and rounded. `keeps`: the
  // residual stream has the normed rows from now on. Whoever reads rows that were sent calls
  // cluster_wait before.
  __device__ void send(LayerNorm norm, bool keeps) {
    constexpr int kWarpsOfRow = kClusterWarps / kOwnRows;
    static_assert(kClusterWidth == 2 * kWarpsOfRow * kWarp);  // a lane has two columns
    const int own = warp() / kWarpsOfRow, pair = warp() % kWarpsOfRow * kWarp + lane();
    const bool sends = row_of(own) < count;
    float2& place = *reinterpret_cast<float2*>(&shared().x[own][2 * pair]);
    float2 value{};
    if (sends) {
      value = place;
      if (norm.weight) {
        NormPair pair_norm;
        pair_norm.load(norm, 2 * pair);
        const float* const from[1] = {shared().x[own]};
        value = pair_norm.apply(row_moments(from, form()), value);
      }
      const unsigned word = Bfloat16::pair(value.x, value.y);
#pragma unroll
      for (int to = 0; to < kClusterBlocks; ++to)
        store_remote(&shared().pairs[row_of(own)][pair], to, word);
    }
    if (norm.weight && keeps) {
      __syncthreads();  // all warps of a row have read it
      if (sends) place = value;
    }
    cluster_arrive();
  }

  // Sends a sublayer's input: the norm of the sublayer before, or its own.
  __device__ void send_input(const LayerNorm& before, const LayerNorm& own) {
    send(problem.pre_norm ? own : before, !problem.pre_norm);
  }

  // Norms this block's rows in place.
  __device__ void apply(LayerNorm norm) {
    if (!norm.weight) return;
    const int own = warp();
    if (own < kOwnRows && row_of(own) < count) {
      const float* const from[1] = {shared().x[own]};
      const Moments moments = row_moments(from, form());
      __syncwarp();  // all have read the row
      write_columns(kClusterWidth, shared().x[own],
                    [&](int i) { return normalise({norm, nullptr, 0}, moments, from[0][i], i); });
    }
    __syncthreads();
  }
};

}  // namespace molspec::cuda
