// select_hypotheses on the GPU: a candidate's place is the number of candidates before it.

#pragma once

#include "cuda/kernels.h"
#include "rules/candidate.h"

namespace molspec::cuda {

inline __device__ Ranked<int64_t> candidate_at(const SelectHypothesesProblem& problem, int64_t i) {
  return {problem.scores[i], problem.parent_ranks[i], problem.token_ids[i]};
}

// Candidates of [row, row + count) that stand before candidate i of them.
inline __device__ int64_t place_of(const SelectHypothesesProblem& problem, int64_t row,
                                   int64_t count, int64_t i) {
  const Ranked<int64_t> mine = candidate_at(problem, row + i);
  int64_t place = 0;
  for (int64_t j = 0; j < count; ++j) {
    const Ranked<int64_t> other = candidate_at(problem, row + j);
    place += better(other, mine) || (j < i && !better(mine, other));
  }
  return place;
}

// Block q selects for query q. Threads stride over its candidates, each of which knows its own
// place, and over the places that stay empty. A query whose count or score is bad is left out.
inline __global__ void select_hypotheses_kernel(SelectHypothesesProblem problem,
                                                FirstBadIndex* bad_count,
                                                FirstBadIndex* bad_score) {
  const int64_t query = blockIdx.x, row = query * problem.candidate_count;
  const int64_t count = problem.candidate_counts[query];
  if (count < 0 || count > problem.candidate_count) {
    if (threadIdx.x == 0) atomicMin(bad_count, static_cast<FirstBadIndex>(query));
    return;
  }
  int64_t* indices = problem.indices + query * problem.beam_size;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    if (isnan(problem.scores[row + i])) atomicMin(bad_score, static_cast<FirstBadIndex>(row + i));
    const int64_t place = place_of(problem, row, count, i);
    if (place < problem.beam_size) indices[place] = i;
  }
  for (int64_t place = count + threadIdx.x; place < problem.beam_size; place += blockDim.x)
    indices[place] = 0;
  if (threadIdx.x == 0)
    problem.counts[query] = count < problem.beam_size ? count : problem.beam_size;
}

}  // namespace molspec::cuda
