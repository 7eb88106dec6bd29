// acceptance_length on the GPU: a warp a row.

#pragma once

#include "cuda/kernels.h"
#include "cuda/warp.cuh"

namespace molspec::cuda {

// The warp of a row compares 32 columns at a time; lane l owns columns l, l + 32, ... A row whose
// draft length is out of range is left out, and the least such is kept in first_bad.
inline __global__ void acceptance_length_kernel(AcceptanceLengthProblem problem,
                                                FirstBadIndex* first_bad) {
  const int lane = lane_index();
  const int64_t row = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) / kWarp;
  if (row >= problem.row_count) return;
  const int64_t length = problem.draft_lengths[row];
  if (length < 0 || length > problem.draft_length) {
    if (lane == 0) atomicMin(first_bad, static_cast<FirstBadIndex>(row));
    return;
  }
  const int64_t* draft = problem.draft_ids + row * problem.draft_length;
  const int64_t* predicted = problem.predicted_ids + row * problem.draft_length;
  int64_t accepted = length;
  for (int64_t first = 0; first < length; first += kWarp) {
    const int64_t column = first + lane;
    const bool differs = column < length && draft[column] != predicted[column];
    const unsigned different = __ballot_sync(~0U, differs);
    if (different) {
      accepted = first + __ffs(static_cast<int>(different)) - 1;
      break;
    }
  }
  if (lane == 0) problem.accepted[row] = accepted;
}

}  // namespace molspec::cuda
