// The operators of dense batches on the GPU (ops/dense.h).

#include "cuda/dense.h"
#include "cuda/launch.h"
#include "cuda/warp.cuh"

namespace molspec::cuda {

// A block a row; threads stride over its columns.
inline __global__ void left_pad_kernel(LeftPadProblem problem, const int64_t* begins) {
  await_previous();
  const int64_t row = blockIdx.x;
  const int64_t pads = problem.width - problem.lengths[row];
  const int64_t* from = problem.token_ids + begins[row];
  int64_t* to = problem.padded_ids + row * problem.width;
  if (threadIdx.x == 0) problem.position_offsets[row] = pads;
  for (int64_t column = threadIdx.x; column < problem.width; column += blockDim.x)
    to[column] = column < pads ? problem.pad_id : from[column - pads];
}

// Block r writes row r: threads stride over its columns, thread 0 writes its offset and query.
inline __global__ void expand_drafts_kernel(ExpandDraftsProblem problem) {
  await_previous();
  const int64_t row = blockIdx.x;
  const int64_t hypothesis = row / problem.draft_count;
  const int64_t query = problem.query_indices[hypothesis];
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

// The warp of a row compares 32 columns at a time; lane l owns columns l, l + 32, ...
inline __global__ void acceptance_length_kernel(AcceptanceLengthProblem problem) {
  await_previous();
  const int lane = lane_index();
  const int64_t row = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) / kWarp;
  if (row >= problem.row_count) return;
  const int64_t length = problem.draft_lengths[row];
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

void left_pad(const LeftPadProblem& problem, const int64_t* begins, cudaStream_t stream) {
  launch("left_pad", left_pad_kernel, problem.row_count, 128, stream, problem, begins);
}

void expand_drafts(const ExpandDraftsProblem& problem, cudaStream_t stream) {
  launch("expand_drafts", expand_drafts_kernel, problem.hypothesis_count * problem.draft_count, 128,
         stream, problem);
}

void acceptance_length(const AcceptanceLengthProblem& problem, cudaStream_t stream) {
  constexpr int kRows = 4;  // of a block
  launch("acceptance_length", acceptance_length_kernel, (problem.row_count + kRows - 1) / kRows,
         kRows * kWarp, stream, problem);
}

}  // namespace molspec::cuda
