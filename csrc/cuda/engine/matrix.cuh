// The matrix unit of one warp: rows [16, 16] times columns [16, 8], 16-bit in, float32 sums.
//
// PTX mma.m16n8k16. Lane l owns, with g = l / 4 and q = l % 4:
//   of the rows     pairs of inner positions (2q, 2q + 1) and (2q + 8, 2q + 9) of rows g and g + 8
//   of the columns  the same two pairs of column g
//   of the sums     columns 2q and 2q + 1 of row g, then of row g + 8

#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace molspec::cuda {

struct RowFragment {
  unsigned low, low8;    // rows g and g + 8, inner 2q
  unsigned high, high8;  // rows g and g + 8, inner 2q + 8
};

struct ColumnFragment {
  unsigned low, high;
};

struct Bfloat16 {
  // Two floats, rounded to nearest even; the first in the low half.
  static __device__ unsigned pair(float first, float second) {
    const __nv_bfloat162 rounded = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const unsigned*>(&rounded);
  }
  static __device__ void multiply_add(const RowFragment& a, const ColumnFragment& b,
                                      float (&sums)[4]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a.low), "r"(a.low8), "r"(a.high), "r"(a.high8), "r"(b.low), "r"(b.high));
  }
};

}  // namespace molspec::cuda
