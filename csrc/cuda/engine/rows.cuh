// Kernels on whole rows: reading and checking, embedding, normalisation, log-probabilities.

#pragma once

#include "cuda/engine/linear.cuh"

namespace molspec::cuda {

constexpr int kRowThreads = 128;
constexpr int kRowsOfBlock = kRowThreads / kWarp;

// Stores the first fault that a thread finds.
inline __device__ void report(Status* status, const Fault& fault) {
  if (atomicCAS(&status->fault.kind, static_cast<int32_t>(Fault::kNone), fault.kind) !=
      Fault::kNone)
    return;
  status->fault.index = fault.index;
  status->fault.value = fault.value;
  status->fault.expected = fault.expected;
}

// Warp i reads node i; its lanes stride over the path and the memory's blocks. A node whose memory
// is kAbsent is a gap, not a fault.
inline __global__ void read_nodes(const Node* nodes, int node_count, const int32_t* path_slots,
                                  Memories memories, NodeLimits limits, Row* rows, Status* status) {
  await_previous();
  const int i = blockIdx.x * kRowsOfBlock + warp_index();
  if (i >= node_count) return;
  const Node node = nodes[i];
  const bool absent = node.memory == kAbsent;
  Fault fault{};
  if (!absent) {
    fault = node_fault(node, i, path_slots, limits, lane_index(), kWarp);
    if (fault.kind == Fault::kNone)
      fault = memory_fault(memories, node.memory, limits.memory_blocks, lane_index(), kWarp);
    if (fault.kind != Fault::kNone) report(status, fault);
  }
  const bool sound = !absent && __ballot_sync(~0U, fault.kind != Fault::kNone) == 0;
  if (lane_index() != 0) return;
  rows[i] =
      sound ? Row{node, path_slots[node.path_begin + node.position]} : Row{{0, 0, 0, kAbsent}, -1};
  if (sound) atomicMax(&status->row_count, i + 1);
}

// Block i reads source i: every warp checks all of it, then its threads stride over its positions.
// Row r is id r of source_ids.
inline __global__ void read_sources(const int32_t* ids, const int32_t* offsets, Memories memories,
                                    SourceLimits limits, Row* rows, Status* status) {
  await_previous();
  const int query = blockIdx.x;
  const Fault fault = source_fault(ids, offsets, query, memories, limits, lane_index(), kWarp);
  if (fault.kind != Fault::kNone) report(status, fault);
  if (__ballot_sync(~0U, fault.kind != Fault::kNone)) return;
  const int32_t* blocks = memories.blocks(query);
  for (int t = threadIdx.x; t < offsets[query + 1] - offsets[query]; t += blockDim.x) {
    const int row = offsets[query] + t;
    rows[row] = {{ids[row], t, 0, query},
                 blocks[t / kBlockPositions] * kBlockPositions + t % kBlockPositions};
    atomicMax(&status->row_count, row + 1);
  }
}

// out[i] = value(i) for columns below `size`, by one warp: lane l owns l, l + 32, ... The loads of
// eight columns are issued before one is written, since `out` may be an input.
template <typename Value>
__device__ void write_columns(int size, float* out, Value value) {
  constexpr int kTogether = 8;
  for (int begin = lane_index(); begin < size; begin += kTogether * kWarp) {
    float values[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i)  // only own columns: others may be written already
      values[i] = value(begin + i * kWarp < size ? begin + i * kWarp : begin);
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
      if (begin + i * kWarp < size) out[begin + i * kWarp] = values[i];
  }
}

struct EmbedProblem {
  const Status* status;
  const Row* rows;
  const float* embedding;  // [vocab, stride]
  const float* positions;  // [position, stride], or null
  float* out;              // [rows, stride]
  int stride;
};

// A warp a row; lane l owns columns l, l + 32, ...
inline __global__ void embed_kernel(EmbedProblem problem) {
  await_previous();
  const int row = blockIdx.x * kRowsOfBlock + warp_index();
  if (row >= problem.status->row_count) return;
  const Node node = problem.rows[row].node;
  // A row of a faulty source has -1 for both: it reads any row of the tables.
  const int64_t token_id = max(node.token_id, 0), position = max(node.position, 0);
  const float* token = problem.embedding + token_id * problem.stride;
  const int64_t offset = position * problem.stride;
  float* out = problem.out + static_cast<int64_t>(row) * problem.stride;
  write_columns(problem.stride, out, [&](int i) {
    return problem.positions ? token[i] + problem.positions[offset + i] : token[i];
  });
}

struct RotationProblem {
  const Status* status;
  const Row* rows;
  const float* table;  // [position, columns]: cosines, then sines
  int columns;         // even
  int head_count, head_stride;
  float* query;  // [rows, query_stride]
  int64_t query_stride;
  LayerCache cache;  // has the row's key in its slot
};

// A block a row, a thread a pair of columns of a head: i and columns / 2 + i. Turns the row's query
// and its stored key.
inline __global__ void rotate_kernel(RotationProblem problem) {
  await_previous();
  const int64_t row = blockIdx.x;
  const Row& of = problem.rows[row];
  if (row >= problem.status->row_count || of.node.memory == kAbsent) return;
  const int half = problem.columns / 2;
  const float* cosines = problem.table + static_cast<int64_t>(of.node.position) * problem.columns;
  float* keys = problem.cache.base + of.slot / kBlockPositions * problem.cache.block_stride +
                of.slot % kBlockPositions;
  for (int pair = threadIdx.x; pair < problem.head_count * half; pair += blockDim.x) {
    const int column = pair / half * problem.head_stride + pair % half;
    const float cosine = cosines[pair % half], sine = cosines[half + pair % half];
    const auto turn = [&](float* left, float* right) {
      const float x = *left, y = *right;
      *left = fmaf(x, cosine, -(y * sine));
      *right = fmaf(y, cosine, x * sine);
    };
    float* query = problem.query + row * problem.query_stride + column;
    turn(query, query + half);
    turn(keys + column * kBlockPositions, keys + (column + half) * kBlockPositions);
  }
}

struct NormProblem {
  const Status* status;
  LayerNorm norm;
  NormForm form;
  int stride;
  const float* in;  // [rows, stride]
  float* out;       // may be `in`
};

// A warp a row; lane l owns columns l, l + 32, ... Weights beyond its size are zero, and so is
// `out`.
inline __global__ void norm_kernel(NormProblem problem) {
  await_previous();
  const int64_t row = blockIdx.x * kRowsOfBlock + warp_index();
  if (row >= problem.status->row_count) return;
  const NormInput in{problem.norm, problem.in, problem.stride};
  const float* const from[1] = {problem.in + row * problem.stride};
  float* to = problem.out + row * problem.stride;
  const Moments moments = row_moments(from, problem.form);
  __syncwarp();  // all have read the row
  write_columns(problem.stride, to, [&](int i) { return normalise(in, moments, from[0][i], i); });
}

// A warp copies a row of `in` [rows, stride] to row `slot` of `out` [slot, size].
inline __global__ void keep_hidden_kernel(const Status* status, const Row* rows, const float* in,
                                          int64_t stride, int size, float* out) {
  await_previous();
  const int64_t row = blockIdx.x * kRowsOfBlock + warp_index();
  if (row >= status->row_count || rows[row].node.memory == kAbsent) return;
  const float* from = in + row * stride;
  write_columns(size, out + int64_t{rows[row].slot} * size, [&](int i) { return from[i]; });
}

struct LogSoftmaxProblem {
  const Status* status;
  const Row* rows;
  int row_count, size;
  const float* in;  // [rows, in_stride]
  int64_t in_stride;
  float* out;  // [row_count, size]
};

// A warp a row; lane l owns columns l, l + 32, ... Absent rows become NaN.
inline __global__ void log_softmax_kernel(LogSoftmaxProblem problem) {
  await_previous();
  const int64_t row = blockIdx.x * kRowsOfBlock + warp_index();
  if (row >= problem.row_count) return;
  float* out = problem.out + row * problem.size;
  if (row >= problem.status->row_count || problem.rows[row].node.memory == kAbsent) {
    for (int i = lane_index(); i < problem.size; i += kWarp) out[i] = NAN;
    return;
  }
  const float* const in[1] = {problem.in + row * problem.in_stride};
  const Columns<1> columns(in, problem.size);
  float top = -INFINITY, total[1] = {};
  columns.for_each([&](int, float value) { top = fmaxf(top, value); });
  top = warp_max(top);
  columns.add(total, [&](float value, int, float sum) { return sum + expf(value - top); });
  const float log_total = logf(total[0]);
  columns.for_each([&](int column, float value) { out[column] = (value - top) - log_total; });
}

}  // namespace molspec::cuda
