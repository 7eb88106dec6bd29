// Replays captured steps without torch and Python, between the rounds of searches on the host.

#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <cstring>

#include "common/limits.h"
#include "common/prepared_step.h"
#include "cuda/engine/rows.h"
#include "cuda/launch.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

// The graphs of steps of kFewestNodes, twice as many, ... over the same buffers, as
// molspec/engine/cuda/session.py writes them.
struct Replay {
  int64_t device;
  cudaStream_t stream;
  Node *nodes, *device_nodes;               // [row_count]; page-locked, and on the device
  int32_t *path_slots, *device_path_slots;  // [slot_limit]
  float *log_probs, *device_log_probs;      // [row_count, vocab_size]
  const Status* status;                     // on the device
  int64_t row_count, slot_limit, vocab_size;
  cudaGraphExec_t graphs[20];
};
static_assert(sizeof(Replay) == kPreparedStepBytes);

void run(const Replay& replay, const Node* nodes, int64_t count, const int32_t* path_slots,
         int64_t slot_count) {
  check(count <= replay.row_count, "a step of ", count, " nodes: expected at most ",
        replay.row_count);
  check(slot_count <= replay.slot_limit, "path_slots has ", slot_count, " slots: expected at most ",
        replay.slot_limit);
  int64_t size = kFewestNodes;
  const cudaGraphExec_t* graph = replay.graphs;
  for (; size < count; size *= 2) ++graph;
  std::copy_n(nodes, count, replay.nodes);
  std::fill(replay.nodes + count, replay.nodes + size, Node{0, 0, 0, kAbsent});
  std::copy_n(path_slots, slot_count, replay.path_slots);
  const DeviceGuard guard(static_cast<int32_t>(replay.device));
  const auto copy = [&](auto* from, auto* to, int64_t items, cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to, from, items * sizeof(*from), kind, replay.stream),
               "copy of a step");
  };
  copy(replay.nodes, replay.device_nodes, size, cudaMemcpyHostToDevice);
  copy(replay.path_slots, replay.device_path_slots, slot_count, cudaMemcpyHostToDevice);
  check_cuda(cudaGraphLaunch(*graph, replay.stream), "replay of a step");
  copy(replay.device_log_probs, replay.log_probs, count * replay.vocab_size,
       cudaMemcpyDeviceToHost);
  refuse(read_back(&replay.status->fault, replay.stream));  // waits
}

// A StepFunction.
const char* replay_step(const void* prepared, const void* nodes, int64_t node_count,
                        const int32_t* path_slots, int64_t path_slot_count) {
  Replay replay;
  std::memcpy(&replay, prepared, sizeof(replay));
  return error_of([&] {
    run(replay, static_cast<const Node*>(nodes), node_count, path_slots, path_slot_count);
  });
}

int64_t replay_function_op(const Tensor& /*weights*/) {
  return reinterpret_cast<int64_t>(&replay_step);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("replay_function", TORCH_BOX(&replay_function_op));
}

}  // namespace molspec::cuda
