// out[row, head] = softmax(scale * query . keys + bias) . values over the row's path or its memory.
//
// Row-invariant: a warp owns one head of one row and takes its positions in order, 32 at a time,
// with a running maximum. What it computes depends on the path's keys and values alone.

#pragma once

#include "cuda/rows.h"
#include "cuda/warp.cuh"

namespace molspec::cuda {

constexpr int kAttentionThreads = 128;
constexpr int kMostHeadVectors = 4;  // a head has at most 4 * 32 columns

struct AttentionProblem {
  const Status* status;
  const Row* rows;
  const int32_t* path_slots;  // null: rows attend to their memory
  Memories memories;
  int head_count, head_stride;
  float scale;
  const float* bias;  // [head, bias_stride], of a query at position 0; null: none
  int64_t bias_stride;
  const float* query;  // [rows, query_stride]
  int64_t query_stride;
  LayerCache cache;
  float* out;  // [rows, out_stride]
  int64_t out_stride;
};

inline __device__ int key_count(const AttentionProblem& problem, const Node& node) {
  if (node.memory == kAbsent) return 0;
  return problem.path_slots ? node.position + 1 : problem.memories.length(node.memory);
}

inline __device__ int32_t key_slot(const AttentionProblem& problem, const Node& node, int t) {
  if (problem.path_slots) return problem.path_slots[node.path_begin + t];
  return problem.memories.blocks(node.memory)[t / kBlockPositions] * kBlockPositions +
         t % kBlockPositions;
}

inline __device__ float key_bias(const AttentionProblem& problem, const Node& node, int head,
                                 int t) {
  if (!problem.bias) return 0.0f;
  return problem.bias[head * problem.bias_stride + t - node.position];
}

// One warp's sums. Lane l owns position l of every 32 while it scores, and columns l, l + 32, ...
// of the head while it weighs values.
template <int kVectors>
struct HeadSums {
  float top = -INFINITY, total = 0.0f;
  float values[kVectors] = {};
};

template <int kVectors>
__device__ float score(const AttentionProblem& problem, const float (&query)[kVectors],
                       const float* keys) {
  float sum = 0.0f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int columns = min(kWarp, problem.head_stride - v * kWarp);
#pragma unroll 8
    for (int c = 0; c < columns; ++c) {
      const float broadcast = __shfl_sync(~0U, query[v], c);
      sum = fmaf(broadcast, keys[(v * kWarp + c) * kBlockPositions], sum);
    }
  }
  return sum * problem.scale;
}

// Adds positions [first, first + count), count at most 32.
template <int kVectors>
__device__ void add_positions(const AttentionProblem& problem, const Node& node, int head,
                              const float (&query)[kVectors], int first, int count,
                              HeadSums<kVectors>& sums) {
  const int lane = lane_index();
  // Lanes beyond the last position look at it again, and do not count.
  const int t = first + min(lane, count - 1);
  const int32_t slot = key_slot(problem, node, t);
  const float* block = problem.cache.base + slot / kBlockPositions * problem.cache.block_stride;
  const float scored =
      score(problem, query,
            block + head * problem.head_stride * kBlockPositions + slot % kBlockPositions) +
      key_bias(problem, node, head, t);
  const float mine = lane < count ? scored : -INFINITY;
  const float top = fmaxf(sums.top, warp_max(mine));
  const float weight = expf(mine - top);
  const float correction = expf(sums.top - top);
  sums.top = top;
  sums.total = sums.total * correction + warp_sum(weight);
  for (int v = 0; v < kVectors; ++v) sums.values[v] *= correction;
  const int width = problem.head_count * problem.head_stride;
#pragma unroll 4
  for (int j = 0; j < count; ++j) {
    const float of_j = __shfl_sync(~0U, weight, j);
    const int32_t at = __shfl_sync(~0U, slot, j);
    const float* values = problem.cache.base + at / kBlockPositions * problem.cache.block_stride +
                          width * kBlockPositions + at % kBlockPositions * width +
                          head * problem.head_stride;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int column = v * kWarp + lane;
      if (column < problem.head_stride) sums.values[v] = fmaf(of_j, values[column], sums.values[v]);
    }
  }
}

// Warp i of the grid: head i % head_count of row i / head_count.
template <int kVectors>
__global__ void __launch_bounds__(kAttentionThreads, 4) attention_kernel(AttentionProblem problem) {
  const int warp = blockIdx.x * (kAttentionThreads / kWarp) + warp_index();
  const int row = warp / problem.head_count, head = warp % problem.head_count;
  if (row >= problem.status->row_count) return;
  const Node node = problem.rows[row].node;
  const float* from = problem.query + row * problem.query_stride + head * problem.head_stride;
  float query[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const int column = v * kWarp + lane_index();
    query[v] = column < problem.head_stride ? from[column] : 0.0f;
  }
  HeadSums<kVectors> sums;
  const int count = key_count(problem, node);
  for (int first = 0; first < count; first += kWarp)
    add_positions(problem, node, head, query, first, min(kWarp, count - first), sums);
  float* out = problem.out + row * problem.out_stride + head * problem.head_stride;
  const float inverse = count ? 1.0f / sums.total : 0.0f;
  for (int v = 0; v < kVectors; ++v) {
    const int column = v * kWarp + lane_index();
    if (column < problem.head_stride) out[column] = sums.values[v] * inverse;
  }
}

}  // namespace molspec::cuda
