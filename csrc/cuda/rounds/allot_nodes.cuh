// The rows of a query's nodes in the next step: after those of the queries before it.

#pragma once

#include "common/answers.h"
#include "ops/steps.h"

namespace molspec::cuda {

constexpr int kStageThreads = 128;

// Block q allots the rows of query q: all threads of all queries' blocks call. Returns its first
// node, or kNotStaged if it has none or there is no room. count_of(query) is its number of nodes.
// Gaps follow the last query that fits; the block that finds itself to be the last one writes them.
template <typename CountOf>
__device__ int32_t allot_nodes(Node* nodes, int64_t node_count, int64_t query_count,
                               CountOf count_of) {
  __shared__ int32_t before;
  const int query = blockIdx.x;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  for (int other = threadIdx.x; other < query; other += blockDim.x)
    atomicAdd(&before, count_of(other));
  __syncthreads();
  const int32_t first = before, count = count_of(query);
  const bool fits = first + count <= node_count;
  if (!fits || query + 1 == query_count)
    for (int64_t node = first + (fits ? count : 0) + threadIdx.x; node < node_count;
         node += blockDim.x)
      nodes[node] = {0, 0, 0, kAbsent};
  return fits && count ? first : AnswerState::kNotStaged;
}

}  // namespace molspec::cuda
