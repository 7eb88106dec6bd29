// What happens to whole rows: they are read and checked, embedded, normalised, and at the end
// turned into log-probabilities.

#pragma once

#include "cuda/linear.cuh"

namespace molspec::cuda {

constexpr int kRowThreads = 128;
constexpr int kRowsOfBlock = kRowThreads / kWarp;

// Keeps the first fault that any thread comes upon.
inline __device__ void report(Status* status, const Fault& fault) {
  if (atomicCAS(&status->fault.kind, static_cast<int32_t>(Fault::kNone), fault.kind) !=
      Fault::kNone)
    return;
  status->fault.index = fault.index;
  status->fault.value = fault.value;
  status->fault.expected = fault.expected;
}

// Thread i reads node i. A node whose memory is kAbsent is a gap and no fault.
inline __global__ void read_nodes(const Node* nodes, int node_count, const int32_t* path_slots,
                                  Memories memories, NodeLimits limits, Row* rows, Status* status) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= node_count) return;
  Node node = nodes[i];
  rows[i] = {{0, 0, 0, kAbsent}, -1};
  if (node.memory == kAbsent) return;
  Fault fault = node_fault(node, i, path_slots, limits);
  if (fault.kind == Fault::kNone) fault = memory_fault(memories, node.memory, limits.memory_blocks);
  if (fault.kind != Fault::kNone) return report(status, fault);
  rows[i] = {node, path_slots[node.path_begin + node.position]};
  atomicMax(&status->row_count, i + 1);
}

// Block i reads source i; its threads stride over its positions. Row r is id r of source_ids.
inline __global__ void read_sources(const int32_t* ids, const int32_t* offsets, Memories memories,
                                    SourceLimits limits, Row* rows, Status* status) {
  const int query = blockIdx.x;
  const Fault fault = source_fault(ids, offsets, query, memories, limits);
  if (fault.kind != Fault::kNone) {
    if (threadIdx.x == 0) report(status, fault);
    return;
  }
  const int32_t* blocks = memories.blocks(query);
  for (int t = threadIdx.x; t < offsets[query + 1] - offsets[query]; t += blockDim.x) {
    const int row = offsets[query] + t;
    rows[row] = {{ids[row], t, 0, query},
                 blocks[t / kBlockPositions] * kBlockPositions + t % kBlockPositions};
    atomicMax(&status->row_count, row + 1);
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
  const int row = blockIdx.x * kRowsOfBlock + warp_index();
  if (row >= problem.status->row_count) return;
  const Node node = problem.rows[row].node;
  // A source's row that was left out has -1 for both: it reads any row of the tables.
  const int64_t token_id = max(node.token_id, 0), position = max(node.position, 0);
  const float* token = problem.embedding + token_id * problem.stride;
  const int64_t place = position * problem.stride;
  float* out = problem.out + static_cast<int64_t>(row) * problem.stride;
  for (int i = lane_index(); i < problem.stride; i += kWarp)
    out[i] = problem.positions ? token[i] + problem.positions[place + i] : token[i];
}

struct NormProblem {
  const Status* status;
  LayerNorm norm;
  int size, stride;
  float eps;
  bool rms;
  const float* in;  // [rows, stride]
  float* out;       // may be `in`
};

// A warp a row; lane l owns columns l, l + 32, ... Weights beyond `size` are zero, and so is `out`.
inline __global__ void norm_kernel(NormProblem problem) {
  const int64_t row = blockIdx.x * kRowsOfBlock + warp_index();
  if (row >= problem.status->row_count) return;
  const NormInput in{problem.norm, problem.in, problem.stride};
  const float* from = problem.in + row * problem.stride;
  float* to = problem.out + row * problem.stride;
  const Moments moments = row_moments(from, problem.size, problem.eps, problem.rms);
  for (int i = lane_index(); i < problem.stride; i += kWarp)
    to[i] = normalise(in, moments, from[i], i);
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
  const int64_t row = blockIdx.x * kRowsOfBlock + warp_index();
  if (row >= problem.row_count) return;
  float* out = problem.out + row * problem.size;
  if (row >= problem.status->row_count || problem.rows[row].node.memory == kAbsent) {
    for (int i = lane_index(); i < problem.size; i += kWarp) out[i] = NAN;
    return;
  }
  const float* in = problem.in + row * problem.in_stride;
  float top = -INFINITY;
  for (int i = lane_index(); i < problem.size; i += kWarp) top = fmaxf(top, in[i]);
  top = warp_max(top);
  float total = 0.0f;
  for (int i = lane_index(); i < problem.size; i += kWarp) total += expf(in[i] - top);
  const float log_total = logf(warp_sum(total));
  for (int i = lane_index(); i < problem.size; i += kWarp) out[i] = (in[i] - top) - log_total;
}

}  // namespace molspec::cuda
