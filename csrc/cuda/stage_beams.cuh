// stage_beams on the GPU: a block a query.

#pragma once

#include "cuda/beam_rows.h"
#include "cuda/beam_tree.cuh"
#include "cuda/place_nodes.cuh"

namespace molspec::cuda {

inline __device__ int32_t node_count_of(const StageBeamsProblem& problem, int query) {
  const BeamAnswer& answer = problem.rows.answers.head(query);
  return answer.state == BeamAnswer::kLive ? answer.planned_count : 0;
}

// Threads stride over the planned nodes of their query.
inline __global__ void stage_beams_kernel(StageBeamsProblem problem) {
  const int query = blockIdx.x;
  const BeamTrees& trees = problem.rows.trees;
  BeamAnswer& answer = problem.rows.answers.head(query);
  if (answer.state == BeamAnswer::kLive) begin_tree(problem.rows, query, problem.bos_id);
  const int32_t first =
      place_nodes(problem.nodes, problem.node_count, problem.rows.answers.query_count,
                  [&](int other) { return node_count_of(problem, other); });
  if (threadIdx.x == 0) answer.first_node = first;
  if (first == BeamAnswer::kNotStaged) return;
  if (threadIdx.x == 0) ++answer.steps;
  for (int32_t i = threadIdx.x; i < answer.planned_count; i += blockDim.x) {
    const int32_t index = trees.plan(query)[i];
    if (index == BeamNode::kNone) {
      problem.nodes[first + i] = {0, 0, 0, kAbsent};
      continue;
    }
    atomicAdd(&answer.nodes, 1);
    const BeamNode& node = trees.tree(query)[index];
    problem.nodes[first + i] = {node.token_id, node.position,
                                static_cast<int32_t>(trees.path_begin(query, index)), query};
  }
}

}  // namespace molspec::cuda
