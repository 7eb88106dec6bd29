// expand_drafts on the GPU: a block a row of the output.

#pragma once

#include "cuda/kernels.h"

namespace molspec::cuda {

// Block r writes row r: threads stride over its columns, thread 0 writes its offset and query. A
// hypothesis whose query does not exist is skipped, and the least such is kept in first_bad.
inline __global__ void expand_drafts_kernel(ExpandDraftsProblem problem, FirstBadIndex* first_bad) {
  const int64_t row = blockIdx.x;
  const int64_t hypothesis = row / problem.draft_count;
  const int64_t query = problem.query_indices[hypothesis];
  if (query < 0 || query >= problem.query_count) {
    if (threadIdx.x == 0) atomicMin(first_bad, static_cast<FirstBadIndex>(hypothesis));
    return;
  }
  const int64_t width = problem.length + problem.draft_length;
  const int64_t* sequence = problem.token_ids + hypothesis * problem.length;
  const int64_t* draft =
      problem.draft_ids +
      (query * problem.draft_count + row % problem.draft_count) * problem.draft_length;
  int64_t* to = problem.expanded_ids + row * width;
  for (int64_t column = threadIdx.x; column < width; column += blockDim.x)
    to[column] = column < problem.length ? sequence[column] : draft[column - problem.length];
  if (threadIdx.x == 0) {
    problem.expanded_offsets[row] = problem.position_offsets[hypothesis];
    problem.expanded_queries[row] = query;
  }
}

}  // namespace molspec::cuda
