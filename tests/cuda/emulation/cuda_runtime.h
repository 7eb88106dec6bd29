// Emulates in plain C++ the part of CUDA that the kernels and launchers of csrc/cuda use, with one
// fiber for each thread. Blocks run one after the other, those of a cluster together. Their threads
// run in random order between barriers, and some warps far ahead of others, so code that lacks a
// barrier fails here as it may on a GPU.
//
// A barrier that not every thread reaches is an error. A warp always has all its lanes. Time,
// caches, alignment and two blocks at once are not emulated, except those of a cluster.

#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __shared__ static
#define __grid_constant__

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
using std::isfinite;
using std::isnan;
using std::max;
using std::min;
inline float2 make_float2(float x, float y) { return {x, y}; }

inline dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace emulation {

constexpr int kWarp = 32;

// A barrier of `size` fibers, the first of which is `first`. A turn ends when all have arrived.
struct Barrier {
  int first = 0, size = 0, arrived = 0, turn = 0;
};

struct Fiber {
  ucontext_t entry;
  jmp_buf resume_point;
  std::unique_ptr<char[]> stack;
  bool entered = false, done = false;  // entered: can be resumed, also for the next block
  int barriers = 0;                    // __syncthreads passed
  int exchanges = 0;                   // warp exchanges passed
  int turn = 0;                        // of the cluster's barrier, when this fiber arrived
  bool skips = false;                  // that barrier
  const Barrier* waits_for = nullptr;
};

struct Warp {
  Barrier barrier;
  uint64_t values[2][kWarp];
};

struct Machine {
  std::function<void()> kernel;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  std::vector<int> ready;
  std::vector<Barrier> barriers;  // of the blocks that run together: one, or a cluster
  Barrier cluster_barrier;
  int block_threads = 0, cluster = 1, first_block = 0;
  std::vector<std::vector<uint64_t>> shared;  // of those blocks: of the size that the launch gives
  jmp_buf scheduler;
  int current = 0;
  std::mt19937 order{1};
  int skipped_barrier = -1;  // index of the barrier that every block skips; -1: none
  int multiprocessors = 132;
  std::map<const void*, size_t> most_shared;  // of kernels that may be given more than 48 KB
};
inline Machine machine;

inline Fiber& current() { return *machine.fibers[static_cast<size_t>(machine.current)]; }

// Returns control to the scheduler until it chooses this fiber again.
__attribute__((noinline)) inline void yield() {
  if (!_setjmp(current().resume_point)) _longjmp(machine.scheduler, 1);
}

__attribute__((noinline)) inline void enter() {
  for (;;) {
    machine.kernel();
    current().done = true;
    yield();  // until another block begins: a new context would take two system calls
  }
}

__attribute__((noinline)) inline void resume(int index) {
  machine.current = index;
  threadIdx = dim3(static_cast<unsigned>(index % machine.block_threads), 0, 0);
  const auto block = static_cast<unsigned>(machine.first_block + index / machine.block_threads);
  blockIdx = dim3(block % gridDim.x, block / gridDim.x, 0);
  Fiber& fiber = current();
  if (_setjmp(machine.scheduler)) return;
  if (fiber.entered) _longjmp(fiber.resume_point, 1);
  fiber.entered = true;
  setcontext(&fiber.entry);
}

// Calls use(i) for `size` fibers from `first` on, in a random order.
template <typename Use>
void for_each_of(int first, int size, Use use) {
  int at = static_cast<int>(machine.order() % static_cast<unsigned>(size));
  int step = at | 1;
  while (std::gcd(step, size) > 1) step += 2;
  for (int i = 0; i < size; ++i) {
    use(first + at);
    at = (at + step) % size;
  }
}

// Returns the turn that ends when all have arrived.
inline int arrive(Barrier& barrier) {
  const int turn = barrier.turn;
  if (++barrier.arrived < barrier.size) return turn;
  barrier.arrived = 0;
  ++barrier.turn;
  for_each_of(barrier.first, barrier.size, [&](int i) {
    Fiber& fiber = *machine.fibers[static_cast<size_t>(i)];
    if (fiber.waits_for != &barrier) return;
    fiber.waits_for = nullptr;
    machine.ready.push_back(i);
  });
  return turn;
}

inline void wait(const Barrier& barrier, int turn) {
  if (barrier.turn != turn) return;
  current().waits_for = &barrier;
  yield();
}
inline void wait(Barrier& barrier) { wait(barrier, arrive(barrier)); }

inline void prepare(int threads) {
  constexpr size_t kStack = 64 * 1024;
  while (static_cast<int>(machine.fibers.size()) < threads) {
    machine.fibers.push_back(std::make_unique<Fiber>());
    machine.fibers.back()->stack.reset(new char[kStack]);  // not cleared: most is never used
  }
  machine.ready.clear();
  for_each_of(0, threads, [](int i) {
    Fiber& fiber = *machine.fibers[static_cast<size_t>(i)];
    const bool ended = fiber.done;
    fiber.done = false;
    fiber.barriers = fiber.exchanges = 0;
    fiber.waits_for = nullptr;
    machine.ready.push_back(i);
    if (fiber.entered && ended) return;
    fiber.entered = false;
    getcontext(&fiber.entry);
    fiber.entry.uc_stack.ss_sp = fiber.stack.get();
    fiber.entry.uc_stack.ss_size = kStack;
    fiber.entry.uc_link = nullptr;
    makecontext(&fiber.entry, reinterpret_cast<void (*)()>(&enter), 0);
  });
  machine.barriers.clear();
  for (int i = 0; i < machine.cluster; ++i)
    machine.barriers.push_back({i * machine.block_threads, machine.block_threads, 0, 0});
  machine.cluster_barrier = {0, threads, 0, 0};
  machine.warps.assign(static_cast<size_t>((threads + kWarp - 1) / kWarp), {});
  for (size_t i = 0; i < machine.warps.size(); ++i)
    machine.warps[i].barrier = {static_cast<int>(i) * kWarp, kWarp, 0, 0};
}

// Runs a block. Returns whether all its threads finished.
inline bool run_block(int threads) {
  prepare(threads);
  int done = 0;
  constexpr unsigned kTurns = 64;
  while (!machine.ready.empty()) {
    // The last that became ready, so that a warp runs far ahead of the others; at times any.
    if (machine.order() % kTurns == 0)
      std::swap(machine.ready[machine.order() % machine.ready.size()], machine.ready.back());
    const int index = machine.ready.back();
    machine.ready.pop_back();
    resume(index);
    done += machine.fibers[static_cast<size_t>(index)]->done;
  }
  return done == threads;
}

inline int block_of_cluster() { return machine.current / machine.block_threads; }
inline uint8_t* shared_of(int rank) {
  return reinterpret_cast<uint8_t*>(machine.shared[static_cast<size_t>(rank)].data());
}

inline Warp& current_warp() { return machine.warps[static_cast<size_t>(machine.current / kWarp)]; }

// Every lane shows a value to its warp. The result is valid until the lane's next call.
template <typename T>
const uint64_t* show(T value) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  Warp& warp = current_warp();
  uint64_t (&values)[kWarp] = warp.values[current().exchanges++ % 2];
  std::memcpy(&values[machine.current % kWarp], &value, sizeof(T));
  wait(warp.barrier);
  return values;
}

// Returns the value that lane `from` shows.
template <typename T>
T exchange(T value, int from) {
  std::memcpy(&value, &show(value)[from % kWarp], sizeof(T));
  return value;
}

}  // namespace emulation

// ------------------------------------------------------------------------------- device side

inline void __syncthreads() {
  if (emulation::current().barriers++ != emulation::machine.skipped_barrier)
    emulation::wait(
        emulation::machine.barriers[static_cast<size_t>(emulation::block_of_cluster())]);
}
inline void __syncwarp() { emulation::wait(emulation::current_warp().barrier); }
template <typename T>
T __shfl_sync(unsigned, T value, int from) {
  return emulation::exchange(value, from);
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  return emulation::exchange(value, (emulation::machine.current % emulation::kWarp) ^ distance);
}
inline unsigned __ballot_sync(unsigned, bool predicate) {
  const uint64_t* shown = emulation::show(static_cast<uint64_t>(predicate));
  unsigned result = 0;
  for (int lane = 0; lane < emulation::kWarp; ++lane)
    result |= static_cast<unsigned>(shown[lane]) << lane;
  return result;
}
inline bool __any_sync(unsigned mask, bool predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
inline unsigned __reduce_min_sync(unsigned, unsigned value) {
  const uint64_t* shown = emulation::show(uint64_t{value});
  return static_cast<unsigned>(*std::min_element(shown, shown + emulation::kWarp));
}
inline unsigned __reduce_max_sync(unsigned, unsigned value) {
  const uint64_t* shown = emulation::show(uint64_t{value});
  return static_cast<unsigned>(*std::max_element(shown, shown + emulation::kWarp));
}
// Returns the mask of the lanes that show the same value.
inline unsigned __match_any_sync(unsigned, unsigned value) {
  const uint64_t* shown = emulation::show(uint64_t{value});
  unsigned result = 0;
  for (int lane = 0; lane < emulation::kWarp; ++lane)
    result |= static_cast<unsigned>(shown[lane] == value) << lane;
  return result;
}

// Applies `work` to each pair of bytes of two words.
template <typename Work>
unsigned each_byte(unsigned left, unsigned right, Work work) {
  unsigned result = 0;
  for (int shift = 0; shift < 32; shift += 8)
    result |= (work(left >> shift & 0xFF, right >> shift & 0xFF) & 0xFF) << shift;
  return result;
}
inline unsigned __vcmpeq4(unsigned left, unsigned right) {
  return each_byte(left, right, [](unsigned a, unsigned b) { return a == b ? 0xFFU : 0U; });
}
inline unsigned __vcmpgeu4(unsigned left, unsigned right) {
  return each_byte(left, right, [](unsigned a, unsigned b) { return a >= b ? 0xFFU : 0U; });
}
inline unsigned __vaddus4(unsigned left, unsigned right) {
  return each_byte(left, right, [](unsigned a, unsigned b) { return std::min(a + b, 0xFFU); });
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  const uint64_t joined = uint64_t{high} << 32 | low;
  return static_cast<unsigned>(joined << shift >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const uint64_t joined = uint64_t{high} << 32 | low;
  return static_cast<unsigned>(joined >> shift);
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline int __ffs(int bits) { return ffs(bits); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

template <typename T>
T atomicMax(T* cell, T value) {
  const T old = *cell;
  if (value > old) *cell = value;
  return old;
}
template <typename T>
T atomicAdd(T* cell, T value) {
  const T old = *cell;
  *cell = old + value;
  return old;
}
template <typename T>
T atomicCAS(T* cell, T expected, T value) {
  const T old = *cell;
  if (old == expected) *cell = value;
  return old;
}
inline unsigned atomicOr(unsigned* cell, unsigned value) {
  const unsigned old = *cell;
  *cell = old | value;
  return old;
}
// Kernels run one after the other.
inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline void cudaGridDependencySynchronize() {}

// --------------------------------------------------------------------------------- host side

using cudaStream_t = void*;
using cudaGraphExec_t = void (*)();  // does the captured work
enum cudaError_t { cudaSuccess, cudaErrorLaunchFailure };
enum cudaMemcpyKind { cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice };
enum cudaLaunchAttributeID {
  cudaLaunchAttributeProgrammaticStreamSerialization,
  cudaLaunchAttributeClusterDimension
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
    dim3 clusterDim;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

inline const char* cudaGetErrorString(cudaError_t) {
  return "a barrier that not every thread reached";
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind,
                                   cudaStream_t) {
  std::memcpy(to, from, size);
  return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void** page, size_t size) {
  *page = std::malloc(size);
  return *page ? cudaSuccess : cudaErrorLaunchFailure;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t) {
  std::memset(to, value, size);
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  graph();
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrClusterLaunch,
  cudaDevAttrMaxSharedMemoryPerBlockOptin
};
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = std::array{emulation::machine.multiprocessors, 9, 1, 227 << 10}[attribute];
  return cudaSuccess;
}
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int bytes) {
  emulation::machine.most_shared[reinterpret_cast<const void*>(kernel)] = bytes;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments... arguments) {
  emulation::Machine& machine = emulation::machine;
  gridDim = config->gridDim;
  blockDim = config->blockDim;
  machine.kernel = [=] { kernel(arguments...); };
  unsigned cluster = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
      cluster = config->attrs[i].val.clusterDim.x;
  machine.block_threads = static_cast<int>(blockDim.x);
  machine.cluster = static_cast<int>(cluster);
  const auto most = machine.most_shared.find(reinterpret_cast<const void*>(kernel));
  if (config->dynamicSmemBytes > (most == machine.most_shared.end() ? 48 << 10 : most->second))
    return cudaErrorLaunchFailure;
  // Fresh memory is NaN, whatever its type.
  machine.shared.assign(cluster, std::vector<uint64_t>(config->dynamicSmemBytes / 8 + 1, ~0ULL));
  const unsigned groups = gridDim.x * gridDim.y / cluster;
  const unsigned first = groups ? machine.order() % groups : 0;
  for (unsigned i = 0; i < groups; ++i) {
    machine.first_block = static_cast<int>((first + i) % groups * cluster);
    if (!emulation::run_block(static_cast<int>(blockDim.x * cluster)))
      return cudaErrorLaunchFailure;
  }
  return cudaSuccess;
}
