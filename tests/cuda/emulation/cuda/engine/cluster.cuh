// Stands in for csrc/cuda/engine/cluster.cuh: the blocks of a cluster run together.

#pragma once

#include <cuda_runtime.h>

namespace molspec::cuda {

constexpr int kClusterBlocks = 8;

inline int thread_index() { return static_cast<int>(threadIdx.x); }
inline int cluster_rank() { return emulation::block_of_cluster(); }
inline void cluster_arrive() {
  emulation::Fiber& fiber = emulation::current();
  fiber.skips = fiber.barriers++ == emulation::machine.skipped_barrier;
  if (!fiber.skips) fiber.turn = emulation::arrive(emulation::machine.cluster_barrier);
}
inline void cluster_wait() {
  emulation::Fiber& fiber = emulation::current();
  if (!fiber.skips) emulation::wait(emulation::machine.cluster_barrier, fiber.turn);
}
inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}
inline uint8_t* dynamic_shared() { return emulation::shared_of(cluster_rank()); }
template <typename T>
void store_remote(T* mine, int rank, T value) {
  const auto offset = reinterpret_cast<uint8_t*>(mine) - dynamic_shared();
  *reinterpret_cast<T*>(emulation::shared_of(rank) + offset) = value;
}

}  // namespace molspec::cuda
