// The cost of splitting a step into several kernels, as JSON in microseconds: a node of a replayed
// graph; a round of 40 such nodes, as a turn of a WHILE node and as one of many queued replays; and
// a barrier of all blocks of a grid, which a persistent kernel would need instead.

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

__global__ void nothing() {}

__global__ void barriers(int count) {
  for (int i = 0; i < count; ++i) cooperative_groups::this_grid().sync();
}

// Microseconds of one call of `work`, the best of five.
template <typename Work>
float microseconds(cudaStream_t stream, Work work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  float best = 1e30f;
  for (int i = 0; i < 6; ++i) {  // the first warms up
    check(cudaEventRecord(begin, stream), "record");
    work();
    check(cudaEventRecord(end, stream), "record");
    check(cudaEventSynchronize(end), "synchronise");
    float milliseconds;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "elapsed");
    if (i && milliseconds * 1000 < best) best = milliseconds * 1000;
  }
  return best;
}

float graph_node(cudaStream_t stream, int blocks) {
  constexpr int kNodes = 200;
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < kNodes; ++i) nothing<<<blocks, 256, 0, stream>>>();
  check(cudaGetLastError(), "launch");
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&replay, graph, 0), "instantiate");
  return microseconds(stream, [&] { check(cudaGraphLaunch(replay, stream), "replay"); }) / kNodes;
}

// One turn of a WHILE node around kTurnNodes kernels, the last of which decides on the next turn:
// the cost of a loop without the host, to compare with kTurnNodes graph nodes and a replay.
constexpr int kTurnNodes = 40;

__global__ void count_down(cudaGraphConditionalHandle again, int* left) {
  *left -= 1;
  cudaGraphSetConditional(again, *left > 0);
}

float while_turn(cudaStream_t stream, int blocks) {
  constexpr int kTurns = 100;
  int* left;
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  cudaGraphNode_t node;
  cudaGraphConditionalHandle again;
  check(cudaMalloc(&left, sizeof(int)), "malloc");
  check(cudaGraphCreate(&graph, 0), "graph");
  check(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault), "handle");
  cudaGraphNodeParams loop{};
  loop.type = cudaGraphNodeTypeConditional;
  loop.conditional.handle = again;
  loop.conditional.type = cudaGraphCondTypeWhile;
  loop.conditional.size = 1;
#if CUDART_VERSION >= 13000
  check(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &loop), "WHILE node");
#else
  check(cudaGraphAddNode(&node, graph, nullptr, 0, &loop), "WHILE node");
#endif
  check(cudaStreamBeginCaptureToGraph(stream, loop.conditional.phGraph_out[0], nullptr, nullptr, 0,
                                      cudaStreamCaptureModeGlobal),
        "capture");
  for (int i = 1; i < kTurnNodes; ++i) nothing<<<blocks, 256, 0, stream>>>();
  count_down<<<1, 1, 0, stream>>>(again, left);
  check(cudaGetLastError(), "launch");
  check(cudaStreamEndCapture(stream, nullptr), "capture");
  check(cudaGraphInstantiate(&replay, graph, 0), "instantiate");
  return microseconds(
             stream,
             [&] {
               check(cudaMemcpyAsync(left, &kTurns, sizeof(int), cudaMemcpyHostToDevice, stream),
                     "turns");
               check(cudaGraphLaunch(replay, stream), "replay");
             }) /
         kTurns;
}

// One replay of a graph of kTurnNodes empty kernels, among many queued ones.
float queued_replay(cudaStream_t stream, int blocks) {
  constexpr int kReplays = 100;
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < kTurnNodes; ++i) nothing<<<blocks, 256, 0, stream>>>();
  check(cudaGetLastError(), "launch");
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&replay, graph, 0), "instantiate");
  return microseconds(stream,
                      [&] {
                        for (int i = 0; i < kReplays; ++i)
                          check(cudaGraphLaunch(replay, stream), "replay");
                      }) /
         kReplays;
}

float grid_barrier(cudaStream_t stream, int blocks) {
  const auto run = [&](int count) {
    void* arguments[] = {&count};
    return microseconds(stream, [&] {
      check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(barriers), dim3(blocks),
                                        dim3(256), arguments, 0, stream),
            "cooperative launch");
    });
  };
  return (run(1000) - run(0)) / 1000;
}

}  // namespace

int main() {
  cudaDeviceProp device;
  cudaStream_t stream;
  check(cudaGetDeviceProperties(&device, 0), "device");
  check(cudaStreamCreate(&stream), "stream");
  const int blocks = device.multiProcessorCount;
  std::printf("{\"device\": \"%s\", \"blocks\": %d, \"graph_node_us\": %.3f, ", device.name, blocks,
              graph_node(stream, blocks));
  std::printf("\"while_turn_us\": %.3f, \"queued_replay_us\": %.3f, ", while_turn(stream, blocks),
              queued_replay(stream, blocks));
  std::printf("\"grid_barrier_us\": %.3f}\n", grid_barrier(stream, blocks));
  return 0;
}
