// Clusters of eight blocks, of Hopper and later: their barrier, and each other's shared memory.

#pragma once

#include <cuda_runtime.h>

namespace molspec::cuda {

constexpr int kClusterBlocks = 8;

// The compiler does not know that two calls return the same.
inline __device__ int thread_index() {
  unsigned index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return static_cast<int>(index);
}
inline __device__ int cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// A barrier of all threads of all blocks: whoever waits, after it has arrived itself, sees what all
// had stored in the shared memory of any when they arrived.
inline __device__ void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
inline __device__ void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
inline __device__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// The shared memory whose size the launch gives.
inline __device__ uint8_t* dynamic_shared() {
  extern __shared__ __align__(16) uint8_t bytes[];
  return bytes;
}

// Stores into the shared memory of another block, at the place that `mine` has in this one's.
inline __device__ unsigned remote_address(const void* mine, int rank) {
  const auto here = static_cast<unsigned>(__cvta_generic_to_shared(mine));
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  return there;
}
inline __device__ void store_remote(float2* mine, int rank, float2 value) {
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(remote_address(mine, rank)),
               "f"(value.x), "f"(value.y)
               : "memory");
}
inline __device__ void store_remote(unsigned* mine, int rank, unsigned value) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote_address(mine, rank)), "r"(value)
               : "memory");
}

}  // namespace molspec::cuda
