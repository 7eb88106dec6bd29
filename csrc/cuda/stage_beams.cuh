// stage_beams on the GPU: a block a query.

#pragma once

#include "cuda/kernels.h"
#include "cuda/place_nodes.cuh"

namespace molspec::cuda {

inline __device__ int32_t node_count_of(const StageBeamsProblem& problem, int query) {
  const BeamAnswer& answer = problem.answers.head(query);
  return answer.state == BeamAnswer::kLive ? answer.live_count : 0;
}

// Hypotheses of the first `rank` places that go on.
inline __device__ int32_t live_before(const BeamPlace* places, int32_t rank) {
  int32_t live = 0;
  for (int32_t i = 0; i < rank; ++i) live += !places[i].finished;
  return live;
}

// Threads stride over the places of their query.
inline __global__ void stage_beams_kernel(StageBeamsProblem problem) {
  const BeamAnswers& answers = problem.answers;
  const int query = blockIdx.x;
  BeamAnswer& answer = answers.head(query);
  const int32_t first = place_nodes(problem.nodes, problem.node_count, answers.query_count,
                                    [&](int other) { return node_count_of(problem, other); });
  if (threadIdx.x == 0) answer.first_node = first;
  if (first == BeamAnswer::kNotStaged) return;
  if (threadIdx.x == 0) {
    ++answer.steps;
    answer.nodes += answer.live_count;
  }
  const BeamPlace* places = answers.beam(query);
  const int32_t position = answer.length;  // BOS has position 0
  for (int32_t rank = threadIdx.x; rank < answer.count; rank += blockDim.x) {
    const BeamPlace& place = places[rank];
    if (place.finished) continue;
    const int32_t begin = problem.paths.begin(query, place.lane);
    problem.paths.data[begin + position] = begin + position;
    const int32_t token =
        position ? answers.token_ids(query, place.lane)[position - 1] : problem.bos_id;
    problem.nodes[first + live_before(places, rank)] = {token, position, begin, query};
  }
}

}  // namespace molspec::cuda
