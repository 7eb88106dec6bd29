// Emulates in plain C++ the part of CUDA that the kernels and launchers of csrc/cuda use, with one
// fiber for each thread. Blocks run one after the other. Their threads run in random order between
// barriers, and some warps far ahead of others, so code that lacks a barrier fails here as it may
// on a GPU.
//
// A barrier that not every thread reaches is an error. A warp always has all its lanes. Time,
// caches, alignment and two blocks at once are not emulated.

#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __shared__ static

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
using std::isfinite;
using std::isnan;
using std::max;
using std::min;
inline float2 make_float2(float x, float y) { return {x, y}; }

inline dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace emulation {

constexpr int kWarp = 32;

// A barrier of `size` fibers, the first of which is `first`.
struct Barrier {
  int first = 0, size = 0, arrived = 0;
};

struct Fiber {
  ucontext_t entry;
  jmp_buf resume_point;
  std::unique_ptr<char[]> stack;
  bool entered = false, done = false;  // entered: can be resumed, also for the next block
  int barriers = 0;                    // __syncthreads passed
  int exchanges = 0;                   // warp exchanges passed
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
  Barrier barrier;
  jmp_buf scheduler;
  int current = 0;
  std::mt19937 order{1};
  int skipped_barrier = -1;  // index of the barrier that every block skips; -1: none
  int multiprocessors = 132;
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
  threadIdx = dim3(static_cast<unsigned>(index), 0, 0);
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

// Waits until all have arrived.
inline void wait(Barrier& barrier) {
  if (++barrier.arrived < barrier.size) {
    current().waits_for = &barrier;
    return yield();
  }
  barrier.arrived = 0;
  for_each_of(barrier.first, barrier.size, [&](int i) {
    Fiber& fiber = *machine.fibers[static_cast<size_t>(i)];
    if (fiber.waits_for != &barrier) return;
    fiber.waits_for = nullptr;
    machine.ready.push_back(i);
  });
}

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
  machine.barrier = {0, threads, 0};
  machine.warps.assign(static_cast<size_t>((threads + kWarp - 1) / kWarp), {});
  for (size_t i = 0; i < machine.warps.size(); ++i)
    machine.warps[i].barrier = {static_cast<int>(i) * kWarp, kWarp, 0};
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
    emulation::wait(emulation::machine.barrier);
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
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
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
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount, cudaDevAttrComputeCapabilityMajor };
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? emulation::machine.multiprocessors : 9;
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
  const unsigned blocks = gridDim.x * gridDim.y;
  const unsigned first = blocks ? machine.order() % blocks : 0;
  for (unsigned i = 0; i < blocks; ++i) {
    const unsigned index = (first + i) % blocks;
    blockIdx = dim3(index % gridDim.x, index / gridDim.x, 0);
    if (!emulation::run_block(static_cast<int>(blockDim.x))) return cudaErrorLaunchFailure;
  }
  return cudaSuccess;
}
