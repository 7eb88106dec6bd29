// A linear, and the operands of one warp: rows and weights of one tile, in batches that are loaded
// before the first of them is used. A load after a branch, or after the use of another load, waits
// for it: 270 cycles on an H200, whatever the size.

#pragma once

#include "cuda/engine/matrix.cuh"
#include "cuda/engine/moments.cuh"

namespace molspec::cuda {

constexpr int kChunks = 8;
constexpr int kLinearThreads = kChunks * kWarp;
constexpr int kTileRows = 16;
constexpr int kTileColumns = 8;
constexpr int kStep = 16;  // inner positions of a matrix instruction
constexpr int kPanel = 64;

struct LinearProblem {
  const Status* status;
  const Row* rows;
  int row_limit;  // rows of the buffers: loads may precede the status, which has the row count
  Linear linear;
  NormInput in;
  NormInput residual;  // rows is null if there is none
  NormForm norm_form;
  Activation activation;
  const float* factor;  // [rows, out_stride], or null; may be `out`
  float* out;           // [rows, out_stride]
  int64_t out_stride;
  // Columns [key_column, key_column + 2 * width) are keys and values of the row's slot: they go to
  // the cache and not to `out`. base is null if there are none.
  LayerCache cache;
  int key_column, width;
};

// A warp's tile: 16 rows, of which lane l reads g and g + 8, times columns of a panel.
struct Tile {
  const LinearProblem& problem;
  int first_row, panel, column;

  // Input columns k and k + 1 in memory. For absent rows it reads others; columns after the last
  // may be anything.
  __device__ float2 input(int row, int k) const {
    const int64_t at = min(first_row + row, problem.row_limit - 1);
    return *reinterpret_cast<const float2*>(problem.in.rows + at * problem.in.stride + k);
  }
};

// The weight and bias of an input's norm at two columns.
struct NormPair {
  float2 weight, bias;

  __device__ void load(const LayerNorm& norm, int k) {
    weight = *reinterpret_cast<const float2*>(norm.weight + k);
    bias = *reinterpret_cast<const float2*>(norm.bias + k);
  }
  __device__ float2 apply(const Moments& moments, float2 value) const {
    return make_float2(fmaf((value.x - moments.mean) * moments.scale, weight.x, bias.x),
                       fmaf((value.y - moments.mean) * moments.scale, weight.y, bias.y));
  }
};

// 16-bit weights, [panel, in / 2, 64, 2]: a column's pair of inner positions is one word, as the
// matrix unit needs it.
template <typename Type>
struct PairedWeights {
  // A lane's operands of kSteps steps of 16 inner positions, all loaded before the first is used.
  template <bool kNormed, int kTiles, int kSteps>
  struct Operands {
    static constexpr int kInner = kSteps * kStep;
    float2 rows[kSteps][2][2];  // rows g and g + 8, inner positions 2q and 2q + 8
    NormPair norms[kSteps][2];
    unsigned weights[kSteps][kTiles][2];

    // The inner position of a lane's pair; positions after `end` are those before it instead.
    static __device__ int pair_at(int i, int first, int end) {
      const int q = lane_index() % 4;
      return min(first + i / 2 * kStep, max(end - kStep, 0)) + 2 * q + 8 * (i % 2);
    }
    // From inner position `first` on: what no kernel writes.
    __device__ void load_weights(const Tile& tile, int first, int end) {
      const int last = static_cast<int>(tile.problem.linear.in_size) - 2;
      const unsigned* column = static_cast<const unsigned*>(tile.problem.linear.weights) +
                               static_cast<int64_t>(tile.panel) * (last / 2 + 1) * kPanel +
                               tile.column + lane_index() / 4;
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) {
        const int k = pair_at(i, first, end);
        if (kNormed) norms[i / 2][i % 2].load(tile.problem.in.norm, k);
#pragma unroll
        for (int j = 0; j < kTiles; ++j)
          weights[i / 2][j][i % 2] = column[min(k, last) / 2 * kPanel + j * kTileColumns];
      }
    }
    __device__ void load_rows(const Tile& tile, int first, int end) {
      const int g = lane_index() / 4;
#pragma unroll
      for (int i = 0; i < 2 * kSteps; ++i) {
        const int k = pair_at(i, first, end);
        rows[i / 2][0][i % 2] = tile.input(g, k);
        rows[i / 2][1][i % 2] = tile.input(g + 8, k);
      }
    }

    // sums[j] += the tile's first `count` rows x columns [8 j, + 8) over inner positions
    // [first, end); `moments` are those of the rows. Everything else counts as zero.
    __device__ void multiply_add(const Tile& tile, const Moments* moments, int count, int first,
                                 int end, float (&sums)[kTiles][4]) const {
      const int g = lane_index() / 4, q = lane_index() % 4;
      const int after = min(static_cast<int>(tile.problem.linear.in_size), end);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const int k = first + s * kStep + 2 * q;
        unsigned words[2][2];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = g + 8 * (i / 2), half = i % 2;
          float2 value = rows[s][i / 2][half];
          if (kNormed) value = norms[s][half].apply(moments[row], value);
          const bool counts = row < count && k + 8 * half < after;
          words[i / 2][half] = counts ? Type::pair(value.x, value.y) : 0;
        }
        const RowFragment a{words[0][0], words[1][0], words[0][1], words[1][1]};
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          const ColumnFragment b{k < after ? weights[s][j][0] : 0,
                                 k + 8 < after ? weights[s][j][1] : 0};
          Type::multiply_add(a, b, sums[j]);
        }
      }
    }
  };
  // As many steps as a lane has registers for.
  template <bool kNormed, int kTiles>
  using Batch = Operands<kNormed, kTiles, kTiles == 1 && !kNormed ? 4 : 2>;
};

// float32 weights, [panel, in, 64]. Lanes have the same sums as with the matrix unit.
struct Float32Weights {
  // The same of kPairs pairs of inner positions.
  template <bool kNormed, int kTiles, int kPairs>
  struct Operands {
    static constexpr int kInner = 2 * kPairs;
    float2 rows[kPairs][2];
    NormPair norms[kPairs];
    float2 weights[kPairs][kTiles][2];  // of the first and the second position

    static __device__ int pair_at(const Tile& tile, int p, int first, int end) {
      const int in_size = static_cast<int>(tile.problem.linear.in_size);
      return min(first + 2 * p, max(min(end, in_size) - 2, 0));
    }
    __device__ void load_weights(const Tile& tile, int first, int end) {
      const int64_t panel = tile.panel * tile.problem.linear.in_size;
      const float* column = static_cast<const float*>(tile.problem.linear.weights) +
                            panel * kPanel + tile.column + 2 * (lane_index() % 4);
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        const int k = pair_at(tile, p, first, end);
        if (kNormed) norms[p].load(tile.problem.in.norm, k);
#pragma unroll
        for (int j = 0; j < 2 * kTiles; ++j)
          weights[p][j / 2][j % 2] = *reinterpret_cast<const float2*>(
              column + (k + j % 2) * kPanel + j / 2 * kTileColumns);
      }
    }
    __device__ void load_rows(const Tile& tile, int first, int end) {
      const int g = lane_index() / 4;
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        const int k = pair_at(tile, p, first, end);
        rows[p][0] = tile.input(g, k);
        rows[p][1] = tile.input(g + 8, k);
      }
    }

    __device__ void multiply_add(const Tile& tile, const Moments* moments, int count, int first,
                                 int end, float (&sums)[kTiles][4]) const {
      const int g = lane_index() / 4;
      const int after = min(static_cast<int>(tile.problem.linear.in_size), end);
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        float2 in[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = g + 8 * half;
          in[half] = kNormed ? norms[p].apply(moments[row], rows[p][half]) : rows[p][half];
          if (row >= count || first + 2 * p >= after) in[half] = make_float2(0.0f, 0.0f);
        }
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          const float2 one = weights[p][j][0], two = weights[p][j][1];
          sums[j][0] = fmaf(in[0].y, two.x, fmaf(in[0].x, one.x, sums[j][0]));
          sums[j][1] = fmaf(in[0].y, two.y, fmaf(in[0].x, one.y, sums[j][1]));
          sums[j][2] = fmaf(in[1].y, two.x, fmaf(in[1].x, one.x, sums[j][2]));
          sums[j][3] = fmaf(in[1].y, two.y, fmaf(in[1].x, one.y, sums[j][3]));
        }
      }
    }
  };
  template <bool kNormed, int kTiles>
  using Batch = Operands<kNormed, kTiles, kTiles == 1 ? 4 : 2>;
};

}  // namespace molspec::cuda
