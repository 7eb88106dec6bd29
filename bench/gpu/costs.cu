// What a step pays for being several kernels, as JSON in microseconds: a node of a replayed graph,
// and a barrier of all blocks of a grid, which a persistent kernel would need in its place.

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
  std::printf("\"grid_barrier_us\": %.3f}\n", grid_barrier(stream, blocks));
  return 0;
}
