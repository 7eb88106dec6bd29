// The operators of dense batches on the GPU (ops/dense.h).

#include "cuda/dense.h"
#include "cuda/launch.h"
#include "cuda/warp.cuh"

namespace molspec::cuda {

// left_pad on the GPU: one block measures the rows, then a block a row copies.

constexpr int kMeasureThreads = 256;

// One block. Thread t measures rows [t * share, (t + 1) * share); thread 0 turns the 256 sums into
// offsets; each thread then writes where its own rows begin.
inline __global__ void left_pad_measure_kernel(const int64_t* lengths, int64_t row_count,
                                               int64_t token_count, int64_t* begins,
                                               RowMeasure* measure) {
  await_previous();
  __shared__ RowMeasure shares[kMeasureThreads];
  const int64_t share = (row_count + kMeasureThreads - 1) / kMeasureThreads;
  const int64_t first = threadIdx.x * share;
  const int64_t end = first + share < row_count ? first + share : row_count;
  RowMeasure mine{0, 0, row_count, 0};
  for (int64_t row = first; row < end; ++row) {
    const int64_t length = lengths[row];
    if ((length < 0 || length > token_count) && mine.bad_row == row_count) {
      mine.bad_row = row;
      mine.bad_length = length;
    }
    if (length > mine.width) mine.width = length;
    mine.total += length;
  }
  shares[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    RowMeasure all{0, 0, row_count, 0};
    for (int t = 0; t < kMeasureThreads; ++t) {
      const RowMeasure part = shares[t];
      shares[t].total = all.total;
      all.total += part.total;
      if (part.width > all.width) all.width = part.width;
      if (part.bad_row < all.bad_row) {
        all.bad_row = part.bad_row;
        all.bad_length = part.bad_length;
      }
    }
    *measure = all;
  }
  __syncthreads();
  int64_t begin = shares[threadIdx.x].total;
  for (int64_t row = first; row < end; ++row) {
    begins[row] = begin;
    begin += lengths[row];
  }
}

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

// expand_drafts on the GPU: a block a row of the output.

// Block r writes row r: threads stride over its columns, thread 0 writes its offset and query. A
// hypothesis whose query does not exist is skipped; the lowest such index goes to first_bad.
inline __global__ void expand_drafts_kernel(ExpandDraftsProblem problem, FirstBadIndex* first_bad) {
  await_previous();
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

// acceptance_length on the GPU: a warp a row.

// The warp of a row compares 32 columns at a time; lane l owns columns l, l + 32, ... A row whose
// draft length is out of range is left out; the lowest such index goes to first_bad.
inline __global__ void acceptance_length_kernel(AcceptanceLengthProblem problem,
                                                FirstBadIndex* first_bad) {
  await_previous();
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

void left_pad_measure(const LeftPadProblem& problem, int64_t* begins, RowMeasure* measure,
                      cudaStream_t stream) {
  launch("left_pad_measure", left_pad_measure_kernel, 1, kMeasureThreads, stream, problem.lengths,
         problem.row_count, problem.token_count, begins, measure);
}

void left_pad(const LeftPadProblem& problem, const int64_t* begins, cudaStream_t stream) {
  launch("left_pad", left_pad_kernel, problem.row_count, 128, stream, problem, begins);
}

void expand_drafts(const ExpandDraftsProblem& problem, FirstBadIndex* first_bad,
                   cudaStream_t stream) {
  launch("expand_drafts", expand_drafts_kernel, problem.hypothesis_count * problem.draft_count, 128,
         stream, problem, first_bad);
}

void acceptance_length(const AcceptanceLengthProblem& problem, FirstBadIndex* first_bad,
                       cudaStream_t stream) {
  constexpr int kRows = 4;  // of a block
  launch("acceptance_length", acceptance_length_kernel, (problem.row_count + kRows - 1) / kRows,
         kRows * kWarp, stream, problem, first_bad);
}

}  // namespace molspec::cuda
