// stage_nodes on the GPU: a block a query.

#pragma once

#include "cuda/greedy_rows.h"
#include "cuda/place_nodes.cuh"

namespace molspec::cuda {

inline __device__ int32_t node_count_of(const StageNodesProblem& problem, int query) {
  const bool live = problem.answers.head(query).state == GreedyAnswer::kLive;
  return live ? 1 + problem.drafts.count(query) : 0;
}

// Nodes of a query whose parents and slots a block reads once: a path is walked up from every
// node, a load after the other.
constexpr int kMostKept = 256;

// What the threads that own the nodes of a query share. Node 0 is the last token, node i draft
// i - 1.
struct StagedQuery {
  const StageNodesProblem& problem;
  int query;
  int32_t first;           // its first node
  int32_t position;        // of node 0
  const int32_t* parents;  // of the drafts
  const int32_t* slots;    // of the nodes

  __device__ int32_t parent(int32_t node) const { return parents[node - 1] + 1; }
  __device__ int32_t* path(int32_t node) const {
    return problem.path_slots + (first + node) * problem.answers.capacity;
  }

  // Writes a node and the part of its path that it does not share with all others; returns whether
  // it is no gap.
  __device__ bool stage(int32_t node) const {
    int32_t at = position;
    for (int32_t n = node; n > 0; n = parent(n)) ++at;
    if (at >= problem.answers.max_length(query)) {
      problem.nodes[first + node] = {0, 0, 0, kAbsent};
      return false;
    }
    const int32_t token = node ? problem.drafts.token_ids(query)[node - 1]
                               : problem.answers.last_token(query, problem.bos_id);
    const auto begin = static_cast<int32_t>((first + node) * problem.answers.capacity);
    problem.nodes[first + node] = {token, at, begin, query};
    for (int32_t n = node; n > 0; n = parent(n)) path(node)[at--] = slots[n];
    path(node)[at] = slots[0];
    return true;
  }
};

// Threads stride over the nodes of their query. Counts are sums of whole numbers: whatever the
// order of the threads, they are the same.
inline __global__ void stage_nodes_kernel(StageNodesProblem problem) {
  const int query = blockIdx.x;
  GreedyAnswer& answer = problem.answers.head(query);
  const int32_t count = node_count_of(problem, query);
  const int32_t* slots = problem.slots.row(query);
  const int32_t* parents = problem.drafts.parents(query);
  const int32_t* free = slots + answer.token_count;
  __shared__ int32_t kept_parents[kMostKept], kept_free[kMostKept];
  if (count <= kMostKept) {
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) {
      kept_free[i] = free[i];
      if (i + 1 < count) kept_parents[i] = parents[i];
    }
    parents = kept_parents;
    free = kept_free;
  }
  const int32_t first = place_nodes(problem.nodes, problem.node_count, problem.answers.query_count,
                                    [&](int other) { return node_count_of(problem, other); });
  if (threadIdx.x == 0) answer.first_node = first;
  if (first != GreedyAnswer::kNotStaged) {
    const StagedQuery staged{problem, query, first, answer.token_count, parents, free};
    for (int32_t node = threadIdx.x; node < count; node += blockDim.x) {
      if (!staged.stage(node)) continue;
      atomicAdd(&answer.nodes, 1);
      atomicAdd(node ? &answer.drafted_tokens : &answer.steps, 1);
    }
    for (int32_t i = threadIdx.x; i < count * staged.position; i += blockDim.x)
      staged.path(i / staged.position)[i % staged.position] = slots[i % staged.position];
  }
}

}  // namespace molspec::cuda
