// Keys in their places of a cache, whose blocks have them column by column.

#include "cpu/kernels.h"
#include "cpu/simd.h"

namespace molspec::cpu {
namespace {

static_assert(kLanes == kBlockPositions);

// The rows from `row` on whose slots follow each other in one block.
inline int run_length(const KeysProblem& problem, int row) {
  const int slot = problem.slots[row], room = kBlockPositions - slot % kBlockPositions;
  int count = 1;
  while (count < room && row + count < problem.rows && problem.slots[row + count] == slot + count)
    ++count;
  return count;
}

// Stores sixteen columns of a run's rows.
__attribute__((always_inline)) inline void store_run(const float* from, int64_t stride, int rows,
                                                     float* to) {
#if defined(__AVX512F__)
  constexpr int kFewest = 5;  // of fewer rows, single stores are faster
  if (rows >= kFewest) {
    // Each round interleaves row i with row i + 8: after four of them rows are columns.
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    __m512 lines[kLanes], mixed[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i)
      lines[i] = _mm512_loadu_ps(from + (i < rows ? i : rows - 1) * stride);
#pragma GCC unroll 4
    for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i)
        mixed[i] = _mm512_permutex2var_ps(lines[i / 2], i % 2 ? high : low, lines[i / 2 + 8]);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) lines[i] = mixed[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i)
      _mm512_mask_storeu_ps(to + i * kBlockPositions, first_lanes(rows), lines[i]);
    return;
  }
#endif
  for (int row = 0; row < rows; ++row)
    for (int64_t i = 0; i < kLanes; ++i) to[i * kBlockPositions + row] = from[row * stride + i];
}

// Sixteen columns of all rows at a time, so that rows of one block share its cache lines.
void store_keys(const KeysProblem& problem) {
  for (int64_t first = 0; first < problem.width; first += kLanes) {
    for (int row = 0, count; row < problem.rows; row += count) {
      count = run_length(problem, row);
      const int slot = problem.slots[row];
      float* block = problem.cache + slot / kBlockPositions * problem.block_stride;
      store_run(problem.keys + row * problem.stride + first, problem.stride, count,
                block + first * kBlockPositions + slot % kBlockPositions);
    }
  }
}

}  // namespace
}  // namespace molspec::cpu
