// Mean and deviation of rows of activations, and normalisation by them.

#pragma once

#include "cuda/engine/rows.h"
#include "cuda/warp.cuh"

namespace molspec::cuda {

struct NormInput {
  LayerNorm norm;  // weight is null if there is no norm to apply
  const float* rows;
  int64_t stride;
};

struct Moments {
  float mean, scale;
};

// Columns of rows as one warp reads them: lane l owns columns l, l + 32, ... in that order. The
// first 256 of all rows are loaded together, and once.
template <int kRows>
struct Columns {
  static constexpr int kHeld = 8;
  const float* const (&rows)[kRows];
  const int size;
  float held[kRows][kHeld];

  __device__ Columns(const float* const (&from)[kRows], int columns) : rows(from), size(columns) {
#pragma unroll
    for (int i = 0; i < kRows * kHeld; ++i)
      held[i / kHeld][i % kHeld] = rows[i / kHeld][min(lane_index() + i % kHeld * kWarp, size - 1)];
  }

  // Calls use(column, value) of a single row.
  template <typename Use>
  __device__ void for_each(Use use) const {
    static_assert(kRows == 1);
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (lane_index() + i * kWarp < size) use(lane_index() + i * kWarp, held[0][i]);
#pragma unroll 1
    for (int i = lane_index() + kHeld * kWarp; i < size; i += kWarp) use(i, rows[0][i]);
  }

  // sums[r] = term(value, r, sums[r]) over the columns of row r, then over the lanes.
  template <typename Term>
  __device__ void add(float (&sums)[kRows], Term term) const {
#pragma unroll
    for (int i = 0; i < kRows * kHeld; ++i) {
      const int r = i / kHeld;
      const float next = term(held[r][i % kHeld], r, sums[r]);
      sums[r] = lane_index() + i % kHeld * kWarp < size ? next : sums[r];
    }
#pragma unroll 1
    for (int column = lane_index() + kHeld * kWarp; column < size; column += kWarp)
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[r] = term(rows[r][column], r, sums[r]);
    warp_sums(sums);
  }
};

// Mean (0 for an RMS norm) and 1 / deviation, see NormForm. Lane l computes those of row l % kRows:
// dividing for one row after the other would take twice the time.
template <int kRows>
__device__ Moments row_moments(const float* const (&rows)[kRows], const NormForm& form) {
  const Columns<kRows> columns(rows, form.size);
  const auto mine = [](const float (&sums)[kRows]) {
    float sum = sums[0];
#pragma unroll
    for (int r = 1; r < kRows; ++r) sum = lane_index() % kRows == r ? sums[r] : sum;
    return sum;
  };
  float totals[kRows] = {}, squares[kRows] = {}, means[kRows];
  if (!form.rms) columns.add(totals, [](float value, int, float sum) { return sum + value; });
  const float mean = mine(totals) / static_cast<float>(form.size);
#pragma unroll
  for (int r = 0; r < kRows; ++r) means[r] = __shfl_sync(~0U, mean, r);
  columns.add(squares, [&](float value, int r, float sum) {
    return fmaf(value - means[r], value - means[r], sum);
  });
  return {mean, 1.0f / (sqrtf(mine(squares) / form.divisor + form.eps) + form.deviation_eps)};
}

inline __device__ float normalise(const NormInput& in, const Moments& moments, float value,
                                  int column) {
  if (!in.norm.weight) return value;
  return fmaf((value - moments.mean) * moments.scale, in.norm.weight[column], in.norm.bias[column]);
}

}  // namespace molspec::cuda
