// Attention over cached blocks. A block has its keys column by column, so the scores of sixteen
// positions are one register and nothing is summed across lanes, and its values row by row.
//
// Rows that attend to the same positions, such as an encoder's rows and the nodes of one query,
// share a tile: a key or a value is loaded once for all of them. A row's sums run over columns and
// over positions in the same order in every tile.

#include "cpu/constant.h"
#include "cpu/kernels.h"
#include "cpu/simd.h"

namespace molspec::cpu {
namespace {

// Sums that stay in registers, in units of 16 lanes; rows of scores whose softmax is computed
// together. Where a pragma unrolls a loop, whole (none has more than 24 turns), gcc 11 otherwise
// stores sums in every step; loops within it follow.
#if defined(__AVX512F__)
constexpr int kAttentionSums = 24, kSoftmaxRows = 4;
#else
constexpr int kAttentionSums = 6, kSoftmaxRows = 1;
#endif
// For a tile of kRows rows: blocks that are scored together, values that are summed together.
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
  f32x16 sums[kRows][kBlocks] = {};
  for (int column = 0; column < problem.head_stride; ++column) {
    f32x16 key[kBlocks];
    for (int b = 0; b < kBlocks; ++b) key[b] = load(keys[b] + column * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const f32x16 value = broadcast(query[r * problem.query_stride + column]);
      for (int b = 0; b < kBlocks; ++b) sums[r][b] = multiply_add(value, key[b], sums[r][b]);
    }
  }
#pragma GCC unroll 24
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

// Reorders scores by block to the order of the path, for all heads, and adds a bias to scale *
// score.
void order_scores(const float* scores, const RowKeys& keys, int head_count, int64_t stride,
                  float* weights) {
  for (int t = 0; t < keys.length; t += kLanes) {
    const Selection selected(keys.lanes + t, keys.length - t, keys.block_count);
    for (int head = 0; head < head_count; ++head)
      store(weights + head * stride + t, selected.of(scores + head * stride));
  }
}

void add_bias(const float* bias, int length, float scale, float* weights) {
  for (int t = 0; t < length; t += kLanes)
    store(weights + t, multiply_add(load(weights + t), broadcast(scale), load(bias + t)));
}

// weights[i, 0..length) = exp(scale * (score - max)) in place of the scores, inverse[i] = 1 / their
// sum, for kCount rows that are `stride` apart: a single row would wait for each of its sums.
// Position t is always in lane t mod 16, so a row's bits depend on its length and values only.
template <int kCount>
void softmax_weights(float* weights, int64_t stride, int length, float scale, float* inverse) {
  const float lowest = -3.0e38f;
  f32x16 highest[kCount], total[kCount] = {};
  for (int i = 0; i < kCount; ++i) highest[i] = broadcast(lowest);
  for (int t = 0; t < length; t += kLanes)
    for (int i = 0; i < kCount; ++i)
      highest[i] = max(highest[i], keep_first(load(weights + i * stride + t), length - t, lowest));
  for (int i = 0; i < kCount; ++i) highest[i] = broadcast(max_of_lanes(highest[i]));
  for (int t = 0; t < length; t += kLanes) {
    for (int i = 0; i < kCount; ++i) {
      float* at = weights + i * stride + t;
      const f32x16 shifted = (load(at) - highest[i]) * broadcast(scale);
      const f32x16 weight = keep_first(exponential(shifted), length - t, 0.0f);
      store(at, weight);
      total[i] = total[i] + weight;
    }
  }
  for (int i = 0; i < kCount; ++i) inverse[i] = 1.0f / sum_of_lanes(total[i]);
}

// A tile's softmax weights, [row, head, stride], and their factors, [row, head].
struct TileWeights {
  float* weights;
  int64_t stride;
  float inverse[kAttentionRows * kMostHeads];
};

// The addresses of the values of every key, in the order of the path.
void find_values(const AttentionProblem& problem, const RowKeys& keys) {
  const int64_t width = static_cast<int64_t>(problem.head_count) * problem.head_stride;
  for (int t = 0; t < keys.length; ++t) {
    const auto lane = static_cast<uint32_t>(keys.lanes ? keys.lanes[t] : t);
    const int64_t block = keys.blocks[lane / kBlockPositions];
    problem.values[t] = problem.cache + block * problem.block_stride +
                        (kBlockPositions + lane % kBlockPositions) * width;
  }
}

// out[columns] = sum over t of weights[head][t] * values[t][columns], for kVectors * 16 columns of
// each of kHeads heads, from `column` of the first head on: a weight is broadcast once for a head.
// Not inline, so that the addresses stay in registers.
template <int kRows, int kHeads, int kVectors>
__attribute__((noinline)) void weigh_values(const AttentionProblem& problem, int length,
                                            const TileWeights& tile, int head, int column,
                                            float* out) {
  const int64_t of_row = problem.head_count * tile.stride;
  const float* weights[kHeads];
  for (int h = 0; h < kHeads; ++h) weights[h] = tile.weights + (head + h) * tile.stride;
  const int64_t first = static_cast<int64_t>(head) * problem.head_stride + column;

  f32x16 sums[kRows][kHeads][kVectors] = {};
  for (int t = 0; t < length; ++t) {
    const float* from = problem.values[t] + first;
    asm("" : "+r"(from));  // otherwise gcc uses a register for every column's address
#pragma GCC unroll 24
    for (int h = 0; h < kHeads; ++h) {
      f32x16 value[kVectors];
      for (int v = 0; v < kVectors; ++v) value[v] = load(from + (h * kVectors + v) * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const f32x16 weight = broadcast(weights[h][r * of_row + t]);
        for (int v = 0; v < kVectors; ++v)
          sums[r][h][v] = multiply_add(weight, value[v], sums[r][h][v]);
      }
    }
  }
#pragma GCC unroll 24
  for (int r = 0; r < kRows; ++r) {
    for (int h = 0; h < kHeads; ++h) {
      const f32x16 scale = broadcast(tile.inverse[r * problem.head_count + head + h]);
      float* to = out + r * problem.out_stride + first + h * kVectors * kLanes;
      for (int v = 0; v < kVectors; ++v) store(to + v * kLanes, sums[r][h][v] * scale);
    }
  }
}

// All heads: kVectors of one head at a time, or as many whole heads as fit in registers.
template <int kRows, int kVectors>
void weigh_heads(const AttentionProblem& problem, int length, const TileWeights& tile, float* out) {
  constexpr int kHeads = values_together(kRows) / kVectors;
  int head = 0;
  if (problem.head_stride == kVectors * kLanes)
    for (; head + kHeads <= problem.head_count; head += kHeads)
      weigh_values<kRows, kHeads, kVectors>(problem, length, tile, head, 0, out);
  for (; head < problem.head_count; ++head)
    for (int column = 0; column < problem.head_stride; column += kVectors * kLanes)
      weigh_values<kRows, 1, kVectors>(problem, length, tile, head, column, out);
}

template <int kRows>
void weigh_heads(const AttentionProblem& problem, int length, const TileWeights& tile, float* out) {
  constexpr int kMost = values_together(kRows);
  if (kMost >= 4 && problem.head_stride % (4 * kLanes) == 0)
    return weigh_heads<kRows, kMost >= 4 ? 4 : 1>(problem, length, tile, out);
  if (kMost >= 2 && problem.head_stride % (2 * kLanes) == 0)
    return weigh_heads<kRows, kMost >= 2 ? 2 : 1>(problem, length, tile, out);
  weigh_heads<kRows, 1>(problem, length, tile, out);
}

// Rows that attend to the same positions.
template <int kRows>
void attend_tile(const AttentionProblem& problem, int64_t row, const RowKeys& keys) {
  const float* query = problem.query + row * problem.query_stride;
  const int64_t scored = static_cast<int64_t>(keys.block_count) * kBlockPositions;
  TileWeights tile;
  tile.weights = problem.scratch;
  tile.stride = scored;
  // For a single row with lanes: its scores by block follow its weights.
  float* scores = keys.lanes ? problem.scratch + problem.head_count * scored : tile.weights;
  const int64_t row_stride = problem.head_count * scored;
  for (int head = 0; head < problem.head_count; ++head)
    score_head<kRows>(problem, query + head * problem.head_stride,
                      static_cast<int64_t>(head) * problem.head_stride * kLanes, keys,
                      scores + head * scored, row_stride);
  if (keys.lanes) order_scores(scores, keys, problem.head_count, scored, tile.weights);
  for (int r = 0; r < kRows; ++r) {
    const int64_t place = -problem.keys[row + r].position;
    for (int head = 0; problem.bias && head < problem.head_count; ++head)
      add_bias(problem.bias + place + head * problem.bias_stride, keys.length, problem.scale,
               tile.weights + r * row_stride + head * scored);
  }
  const float scale = problem.bias ? 1.0f : problem.scale;
  in_tiles<kSoftmaxRows>(kRows * problem.head_count, [&](int first, auto count) {
    softmax_weights<decltype(count)::value>(tile.weights + first * scored, scored, keys.length,
                                            scale, tile.inverse + first);
  });

  find_values(problem, keys);
  weigh_heads<kRows>(problem, keys.length, tile, problem.out + row * problem.out_stride);
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
