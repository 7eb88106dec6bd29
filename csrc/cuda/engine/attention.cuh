// out[row, head] = softmax(scale * query . keys + bias) . values over the row's path or its memory.
//
// Row-invariant: a warp owns one head of one row and takes its positions in order, 32 at a time,
// with a running maximum. Its result depends on the path's keys and values alone.

#pragma once

#include "cuda/engine/rows.h"
#include "cuda/warp.cuh"

namespace molspec::cuda {

constexpr int kAttentionThreads = 128;
constexpr int kHeadsOfBlock = kAttentionThreads / kWarp;
constexpr int kMostHeadVectors = 4;  // a head has at most 4 * 32 columns
constexpr int kColumnStep = 16;      // head_stride and every stride of a cache are multiples

struct AttentionProblem {
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

// Reads a row's node in one load: with four, some would wait for the branch on the first.
inline __device__ Node row_node(const Row* rows, int64_t row) {
  const int4 node = *reinterpret_cast<const int4*>(&rows[row].node);
  return {node.x, node.y, node.z, node.w};
}

inline __device__ int key_count(const AttentionProblem& problem, const Node& node) {
  return problem.path_slots ? node.position + 1 : problem.memories.length(node.memory);
}

// Position t's slot. A memory may be read after its end, where the slot may be anything, so that no
// load waits for the length.
inline __device__ int32_t key_slot(const AttentionProblem& problem, const Node& node, int t) {
  if (problem.path_slots) return problem.path_slots[node.path_begin + min(t, node.position)];
  const int block = min(t / kBlockPositions, static_cast<int>(problem.memories.stride) - 2);
  return problem.memories.blocks(node.memory)[block] * kBlockPositions + t % kBlockPositions;
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

  // Takes the lane's score, -INFINITY of no position; returns the weight of its values.
  __device__ float weigh(float score) {
    const float next = fmaxf(top, warp_max(score));
    const float weight = expf(score - next), correction = expf(top - next);
    top = next;
    total = total * correction + warp_sum(weight);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) values[v] *= correction;
    return weight;
  }
};

// The values of kPositions positions, all loaded before the first is used.
template <int kVectors>
struct ValueGroup {
  // As many as the registers hold, beside the keys.
  static constexpr int kPositions = kVectors == 1 ? kWarp : kWarp / 2 / kVectors;
  float values[kPositions][kVectors];

  // Lane l's `offset` is the offset of the values of position l in steps of 16 columns: 32 bits are
  // enough for any cache.
  __device__ void load(const AttentionProblem& problem, unsigned offset, int first) {
#pragma unroll
    for (int j = 0; j < kPositions; ++j) {
      const unsigned at = __shfl_sync(~0U, offset, first + j);
      const float* row = problem.cache.base + static_cast<uint64_t>(at) * kColumnStep;
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        values[j][v] = row[min(v * kWarp + lane_index(), problem.head_stride - 1)];
    }
  }

  __device__ void add(float weight, int first, int count, HeadSums<kVectors>& sums) const {
#pragma unroll
    for (int j = 0; j < kPositions; ++j) {
      const float of_j = __shfl_sync(~0U, weight, first + j);
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        if (first + j < count) sums.values[v] = fmaf(of_j, values[j][v], sums.values[v]);
    }
  }
};

// 32 columns of a position's keys and of the query, all loaded before the first is used.
struct KeyColumns {
  static constexpr int kHalves = kWarp / kColumnStep;
  float keys[kHalves][kColumnStep];
  float4 query[kHalves][kColumnStep / 4];

  // Columns that the head does not have: its last ones again.
  __device__ void load(const AttentionProblem& problem, const float* from, const float* at,
                       int first) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const int column = min(first + half * kColumnStep, problem.head_stride - kColumnStep);
#pragma unroll
      for (int c = 0; c < kColumnStep; ++c) keys[half][c] = at[(column + c) * kBlockPositions];
#pragma unroll
      for (int c = 0; c < kColumnStep / 4; ++c)
        query[half][c] = reinterpret_cast<const float4*>(from + column)[c];
    }
  }

  // No branch: after one, half of the loads would wait for the other half.
  __device__ float add(const AttentionProblem& problem, int first, float sum) const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      float next = sum;
#pragma unroll
      for (int c = 0; c < kColumnStep / 4; ++c) {
        next = fmaf(query[half][c].x, keys[half][4 * c], next);
        next = fmaf(query[half][c].y, keys[half][4 * c + 1], next);
        next = fmaf(query[half][c].z, keys[half][4 * c + 2], next);
        next = fmaf(query[half][c].w, keys[half][4 * c + 3], next);
      }
      sum = first + half * kColumnStep < problem.head_stride ? next : sum;
    }
    return sum;
  }
};

// Adds positions [first, first + count), count at most 32. Lanes beyond the last have the last
// position's slot; their results are not used.
template <int kVectors>
__device__ void add_positions(const AttentionProblem& problem, const Node& node, int head,
                              const float* query, int32_t slot, int first, int count,
                              HeadSums<kVectors>& sums) {
  const int lane = lane_index();
  const int width = problem.head_count * problem.head_stride;
  const int64_t block = slot / kBlockPositions * problem.cache.block_stride;
  const int64_t head_begin = head * problem.head_stride;
  const int64_t values_at = block + width * kBlockPositions + slot % kBlockPositions * width;
  const auto offset = static_cast<unsigned>((values_at + head_begin) / kColumnStep);
  const float bias = key_bias(problem, node, head, first + min(lane, count - 1));
  const float* keys =
      problem.cache.base + block + head_begin * kBlockPositions + slot % kBlockPositions;
  KeyColumns columns;
  columns.load(problem, query, keys, 0);
  ValueGroup<kVectors> group;
  group.load(problem, offset, 0);
  float score = columns.add(problem, 0, 0.0f);
#pragma unroll
  for (int column = kWarp; column < kVectors * kWarp; column += kWarp) {
    columns.load(problem, query, keys, column);
    score = columns.add(problem, column, score);
  }
  const float scored = score * problem.scale + bias;
  const float weight = sums.weigh(lane < count ? scored : -INFINITY);
  group.add(weight, 0, count, sums);
  for (int j = group.kPositions; j < count; j += group.kPositions) {
    group.load(problem, offset, j);
    group.add(weight, j, count, sums);
  }
}

// Block (r, i): row r; its warp w is head 4 i + w. Independent loads are issued together: the node,
// then its slots and their number, then keys and values. Absent rows stay unchanged.
template <int kVectors>
__global__ void __launch_bounds__(kAttentionThreads, 4) attention_kernel(AttentionProblem problem) {
  await_previous();
  const int lane = lane_index();
  const int64_t row = blockIdx.x;
  const int head = blockIdx.y * kHeadsOfBlock + warp_index();
  const Node node = row_node(problem.rows, row);
  if (node.memory == kAbsent || head >= problem.head_count) return;
  const float* query = problem.query + row * problem.query_stride + head * problem.head_stride;
  HeadSums<kVectors> sums;
  int32_t next = key_slot(problem, node, lane);
  const int count = key_count(problem, node);
  for (int first = 0; first < count; first += kWarp) {
    const int left = min(kWarp, count - first);
    const int32_t last = __shfl_sync(~0U, next, left - 1);
    const int32_t slot = lane < left ? next : last;
    next = key_slot(problem, node, first + kWarp + lane);
    add_positions(problem, node, head, query, slot, first, left, sums);
  }
  float* out = problem.out + row * problem.out_stride + head * problem.head_stride;
  const float inverse = 1.0f / sums.total;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int column = v * kWarp + lane;
    if (column < problem.head_stride) out[column] = sums.values[v] * inverse;
  }
}

}  // namespace molspec::cuda
