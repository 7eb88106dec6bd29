// Attention over cached blocks. A block keeps its keys column by column, so the scores of sixteen
// positions are one register and nothing is summed across lanes, and its values row by row.
//
// Rows that attend to the same positions, as an encoder's rows and the nodes of one query do, go
// through the cache together: a key or a value is loaded once for all rows of a tile. A row's sums
// run over columns and over positions, in order, in whatever tile it is.

#include "cpu/constant.h"
#include "cpu/kernels.h"
#include "cpu/simd.h"

namespace molspec::cpu {
namespace {

// Sums that stay in registers, in units of 16 lanes.
#if defined(__AVX512F__)
constexpr int kAttentionSums = 24;
#else
constexpr int kAttentionSums = 6;
#endif
// Of a tile of so many rows: blocks that are scored together, values that are summed together.
constexpr int blocks_together(int rows) {
  const int most = kAttentionSums / rows;
  return most < 1 ? 1 : most > 6 ? 6 : most;
}
constexpr int values_together(int rows) {
  const int most = kAttentionSums / rows;
  return most >= 16 ? 16 : most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

// Scores of one head for every position of the blocks, whether or not the rows attend to it.
template <int kRows, int kBlocks>
void score_blocks(const AttentionProblem& problem, const float* query, int64_t head_offset,
                  const int32_t* blocks, float* scores, int64_t scores_stride) {
  const float* keys[kBlocks];
  for (int b = 0; b < kBlocks; ++b)
    keys[b] = problem.cache + blocks[b] * problem.block_stride + head_offset;
  f32x16 sums[kRows][kBlocks];
  for (int r = 0; r < kRows; ++r)
    for (int b = 0; b < kBlocks; ++b) sums[r][b] = broadcast(0.0f);
  for (int column = 0; column < problem.head_stride; ++column) {
    f32x16 key[kBlocks];
    for (int b = 0; b < kBlocks; ++b) key[b] = load(keys[b] + column * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const f32x16 value = broadcast(query[r * problem.query_stride + column]);
      for (int b = 0; b < kBlocks; ++b) sums[r][b] = multiply_add(value, key[b], sums[r][b]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int b = 0; b < kBlocks; ++b) store(scores + r * scores_stride + b * kLanes, sums[r][b]);
}

template <int kRows>
void score_head(const AttentionProblem& problem, const float* query, int64_t head_offset,
                const RowKeys& keys, float* scores, int64_t scores_stride) {
  in_tiles<blocks_together(kRows)>(keys.block_count, [&](int block, auto count) {
    score_blocks<kRows, decltype(count)::value>(problem, query, head_offset, keys.blocks + block,
                                                scores + block * kLanes, scores_stride);
  });
}

// weights[0..length) = exp(scale * (score - max)); returns 1 / their sum. Position t always falls
// in lane t mod 16, so the sum depends on the length and the values only. `weights` may be `scores`
// where lanes are null. A bias is added to scale * score.
float softmax_weights(const float* scores, const int32_t* lanes, int length, float scale,
                      const float* bias, float* weights) {
  if (lanes) {
    for (int t = 0; t < length; ++t) weights[t] = scores[lanes[t]];
    scores = weights;
  }
  if (bias) {
    for (int t = 0; t < length; t += kLanes)
      store(weights + t, multiply_add(load(scores + t), broadcast(scale), load(bias + t)));
    scores = weights;
    scale = 1.0f;
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

// A tile's softmax weights: [row, head, stride], and what each head's are to be divided by.
struct TileWeights {
  float* weights;
  int64_t stride;
  float inverse[kAttentionRows][kMostHeads];
};

// out[columns] = sum over t of weights[head of column][t] * values[t][columns]
template <int kRows, int kVectors>
void weigh_values(const AttentionProblem& problem, const RowKeys& keys, const TileWeights& tile,
                  int column, float* out) {
  const int64_t width = static_cast<int64_t>(problem.head_count) * problem.head_stride;
  const float* values = problem.cache + width * kBlockPositions + column;
  const float* of_head[kVectors];
  for (int v = 0; v < kVectors; ++v)
    of_head[v] = tile.weights + (column + v * kLanes) / problem.head_stride * tile.stride;
  const int64_t of_row = problem.head_count * tile.stride;

  f32x16 sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = broadcast(0.0f);
  for (int t = 0; t < keys.length; ++t) {
    const int lane = keys.lanes ? keys.lanes[t] : t;
    const float* from = values + keys.blocks[lane / kBlockPositions] * problem.block_stride +
                        (lane % kBlockPositions) * width;
    f32x16 value[kVectors];
    for (int v = 0; v < kVectors; ++v) value[v] = load(from + v * kLanes);
    for (int r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v)
        sums[r][v] = multiply_add(broadcast(of_head[v][r * of_row + t]), value[v], sums[r][v]);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const float scale = tile.inverse[r][(column + v * kLanes) / problem.head_stride];
      store(out + r * problem.out_stride + column + v * kLanes, sums[r][v] * broadcast(scale));
    }
  }
}

// Rows that attend to the same positions.
template <int kRows>
void attend_tile(const AttentionProblem& problem, int64_t row, const RowKeys& keys) {
  const float* query = problem.query + row * problem.query_stride;
  const int64_t scored = static_cast<int64_t>(keys.block_count) * kBlockPositions;
  TileWeights tile;
  tile.weights = problem.scratch;
  tile.stride = scored;
  float* unordered = problem.scratch + problem.head_count * scored;  // a single row's with lanes
  for (int head = 0; head < problem.head_count; ++head) {
    float* weights = tile.weights + head * scored;
    float* scores = keys.lanes ? unordered : weights;
    const int64_t stride = problem.head_count * scored;
    score_head<kRows>(problem, query + head * problem.head_stride,
                      static_cast<int64_t>(head) * problem.head_stride * kLanes, keys, scores,
                      stride);
    for (int r = 0; r < kRows; ++r) {
      const float* bias = problem.keys[row + r].bias;
      tile.inverse[r][head] =
          softmax_weights(scores + r * stride, keys.lanes, keys.length, problem.scale,
                          bias ? bias + head * problem.bias_stride : nullptr, weights + r * stride);
    }
  }

  float* out = problem.out + row * problem.out_stride;
  const int width = problem.head_count * problem.head_stride;
  constexpr int kVectors = values_together(kRows);
  int column = 0;
  for (; column + kVectors * kLanes <= width; column += kVectors * kLanes)
    weigh_values<kRows, kVectors>(problem, keys, tile, column, out);
  for (; column < width; column += kLanes) weigh_values<kRows, 1>(problem, keys, tile, column, out);
}

bool shared(const RowKeys& a, const RowKeys& b) {
  return !a.lanes && !b.lanes && a.blocks == b.blocks && a.length == b.length;
}

void attention(const AttentionProblem& problem) {
  int end;
  for (int row = 0; row < problem.rows; row = end) {
    const RowKeys& keys = problem.keys[row];
    end = row + 1;
    while (end < problem.rows && shared(problem.keys[end], keys)) ++end;
    in_tiles<kAttentionRows>(end - row, [&](int first, auto count) {
      attend_tile<decltype(count)::value>(problem, row + first, keys);
    });
  }
}

}  // namespace
}  // namespace molspec::cpu
