// Products of bytes, dense or sparse. After ReLU most bytes of a row are zero: the others are
// listed, and only their weights are read. Sums of bytes are exact, so what is left out changes no
// bit.

#pragma once

#include "cpu/tiles.inl"

namespace molspec::cpu {
namespace {

#if defined(MOLSPEC_INTERLEAVES)
constexpr int kSparsePanels = kTileVectors;  // whose sums stay in registers
// An entry of a list is an inner position, and above it the byte.
constexpr int kPlaceBits = 24;
constexpr uint32_t kPlaces = (1u << kPlaceBits) - 1;

// Lists the bytes of a rounded row that are not zero, and returns their number. Zeros follow.
int list_row(const LinearProblem& problem, int64_t row) {
  const uint8_t* bytes = Int8::input(problem, row);
  uint32_t* to = problem.list;
  int i = 0;
#if defined(__AVX512F__)
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (; i + kLanes <= problem.in_size; i += kLanes) {
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)(bytes + i)));
    const __m512i above =
        _mm512_slli_epi32(_mm512_sub_epi32(wide, _mm512_set1_epi32(kByteOffset)), kPlaceBits);
    const __m512i entries = _mm512_add_epi32(above, _mm512_add_epi32(lanes, _mm512_set1_epi32(i)));
    const __mmask16 here = _mm512_test_epi32_mask(above, above);
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(here, entries));
    to += __builtin_popcount(here);
  }
#endif
  for (; i < problem.in_size; ++i) {
    const uint32_t byte = static_cast<uint8_t>(bytes[i] - kByteOffset);
    *to = byte << kPlaceBits | static_cast<uint32_t>(i);
    to += byte != 0;
  }
  for (int added = 0; added < kListRoom; ++added) to[added] = 0;
  return static_cast<int>(to - problem.list);
}

// The sums of one row and kPanels panels over the entries of the list.
template <int kPanels>
void sparse_tile(const LinearProblem& problem, int panel, int64_t row, int count) {
  constexpr int kAhead = kListRoom - Int8::kStep;
  const int64_t stride = static_cast<int64_t>(problem.panels) * kPanelColumns;
  const auto weights = [&](int n, int p) {
    return problem.by_rows + (problem.list[n] & kPlaces) * stride + (panel + p) * kPanelColumns;
  };
  // Inline, or gcc 12 leaves its calls out: it sees nothing that they change.
  const auto fetch = [&](int n) __attribute__((always_inline)) {
    for (int p = 0; p < kPanels; ++p) __builtin_prefetch(weights(n, p));
  };
  for (int n = 0; n < kAhead && n < count; ++n) fetch(n);
  i32x16 sums[kPanels][kPanelVectors] = {};
  for (int n = 0; n < count; n += Int8::kStep) {
    uint32_t four = 0;
#pragma GCC unroll 4
    for (int i = 0; i < Int8::kStep; ++i) {
      four |= problem.list[n + i] >> kPlaceBits << 8 * i;
      fetch(n + kAhead + i);
    }
    const i32x16 values = broadcast_integer(static_cast<int32_t>(four));
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      const i32x16 a = load_integers(weights(n, p)), b = load_integers(weights(n + 1, p));
      const i32x16 c = load_integers(weights(n + 2, p)), d = load_integers(weights(n + 3, p));
      const i32x16 low = interleaved<low_bytes>(a, b), low2 = interleaved<low_bytes>(c, d);
      const i32x16 high = interleaved<high_bytes>(a, b), high2 = interleaved<high_bytes>(c, d);
      sums[p][0] = add_products(sums[p][0], values, interleaved<low_pairs>(low, low2));
      sums[p][1] = add_products(sums[p][1], values, interleaved<high_pairs>(low, low2));
      sums[p][2] = add_products(sums[p][2], values, interleaved<low_pairs>(high, high2));
      sums[p][3] = add_products(sums[p][3], values, interleaved<high_pairs>(high, high2));
    }
  }
  RegisterSums<i32x16, 1, kPanelVectors> whole[kPanels];  // indexed, so not in registers above
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p)
    for (int v = 0; v < kPanelVectors; ++v) whole[p].sums[0][v] = sums[p][v];
  for (int p = 0; p < kPanels; ++p)
    finish<Int8>(problem, row, static_cast<int64_t>(panel + p) * kPanelColumns, whole[p]);
}

// The most bytes of a first row that are listed: with more of them the dense matrix was as fast
// where it was measured (docs/decisions/0073). -1: none.
int most_listed(const LinearProblem& problem) {
  constexpr int kFewestPlaces = 256;  // a shorter row is not worth a list
  if (problem.by_rows == nullptr || problem.in_size < kFewestPlaces) return -1;
#if defined(__AMX_INT8__)  // to tiles a further row is almost free
  if (problem.rows >= kFewestTileRows) return problem.in_size / problem.rows;
#endif
  return problem.in_size / 5;
}

// Multiplies rounded rows. Returns false, with nothing written, if too many bytes are not zero.
bool linear_sparse(const LinearProblem& problem) {
  const int most = most_listed(problem);
  for (int row = 0; most >= 0 && row < problem.rows; ++row) {
    const int count = list_row(problem, row);
    if (row == 0 && count > most) return false;
    for (int panel = 0; panel < problem.panels; panel += kSparsePanels)
      with_constant<kSparsePanels>(problem.panels - panel, [&](auto panels) {
        sparse_tile<decltype(panels)::value>(problem, panel, row, count);
      });
  }
  return most >= 0;
}
#endif

void linear_int8(const LinearProblem& problem) {
  in_tiles<kRoundedRows>(problem.rows, [&](int row, auto count) {
    round_rows_to_bytes<decltype(count)::value>(problem, row);
  });
#if defined(MOLSPEC_INTERLEAVES)
  if (linear_sparse(problem)) return;
#endif
#if defined(__AMX_INT8__)
  if (problem.rows >= kFewestTileRows) return linear_in_tiles(problem);
#endif
  linear<Int8>(problem);
}

}  // namespace
}  // namespace molspec::cpu
