// left_pad on the GPU: one block measures the rows, then a block a row copies.

#pragma once

#include "cuda/kernels.h"

namespace molspec::cuda {

constexpr int kMeasureThreads = 256;

// One block. Thread t measures rows [t * share, (t + 1) * share); thread 0 turns the 256 sums into
// offsets; each thread then writes where its own rows begin.
inline __global__ void left_pad_measure_kernel(const int64_t* lengths, int64_t row_count,
                                               int64_t token_count, int64_t* begins,
                                               RowMeasure* measure) {
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
  const int64_t row = blockIdx.x;
  const int64_t pads = problem.width - problem.lengths[row];
  const int64_t* from = problem.token_ids + begins[row];
  int64_t* to = problem.padded_ids + row * problem.width;
  if (threadIdx.x == 0) problem.position_offsets[row] = pads;
  for (int64_t column = threadIdx.x; column < problem.width; column += blockDim.x)
    to[column] = column < pads ? problem.pad_id : from[column - pads];
}

}  // namespace molspec::cuda
