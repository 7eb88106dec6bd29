// The limits of one core: reading memory front to back, and multiplying and adding in registers.
// ceilings.py compiles this for its machine; it uses the vector extensions of gcc and clang.

#include <cstdint>
#include <cstring>
#if defined(__AVX512BF16__) || defined(__AVX512VNNI__)
#include <immintrin.h>
#endif

namespace {

typedef float Vector __attribute__((vector_size(64)));
constexpr int kChains = 16;  // independent sums, more than latency times units

float sum(const Vector (&chains)[kChains]) {
  float total = 0;
  for (const Vector& chain : chains)
    for (int lane = 0; lane < 16; ++lane) total += chain[lane];
  return total;
}

}  // namespace

extern "C" {

// Adds up `bytes` / 4 floats, read once from front to back; bytes is a multiple of 1024.
float read_bytes(const float* from, int64_t bytes) {
  Vector chains[kChains] = {};
  const int64_t step = kChains * sizeof(Vector);
  for (int64_t at = 0; at < bytes; at += step) {
    for (int i = 0; i < kChains; ++i) {
      Vector loaded;
      std::memcpy(&loaded, reinterpret_cast<const char*>(from) + at + i * sizeof(Vector),
                  sizeof(loaded));
      chains[i] += loaded;
    }
  }
  return sum(chains);
}

// Operations of one repeat of float32_products: 16 chains of 16 lanes, a product and a sum each.
int64_t float32_operations() { return kChains * 16 * 2; }

float float32_products(float factor, int64_t repeats) {
  Vector chains[kChains];  // different values, or the compiler would merge the chains
  for (int i = 0; i < kChains; ++i) chains[i] = Vector{} + factor * i;
  const Vector factors = Vector{} + factor;
  for (int64_t repeat = 0; repeat < repeats; ++repeat)
    for (int i = 0; i < kChains; ++i) chains[i] = chains[i] * factors + factors;
  return sum(chains);
}

#if defined(__AVX512BF16__)

// A lane takes two products of bfloat16.
int64_t bfloat16_operations() { return kChains * 16 * 4; }

float bfloat16_products(float factor, int64_t repeats) {
  __m512 chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = _mm512_set1_ps(factor * i);
  const __m512 wide = _mm512_set1_ps(factor);
  const __m512bh factors = _mm512_cvtne2ps_pbh(wide, wide);
  for (int64_t repeat = 0; repeat < repeats; ++repeat)
    for (int i = 0; i < kChains; ++i) chains[i] = _mm512_dpbf16_ps(chains[i], factors, factors);
  Vector totals[kChains];
  std::memcpy(totals, chains, sizeof(totals));
  return sum(totals);
}

#else  // Without that instruction bfloat16 is widened and multiplied as float32.

int64_t bfloat16_operations() { return float32_operations(); }
float bfloat16_products(float factor, int64_t repeats) { return float32_products(factor, repeats); }

#endif

#if defined(__AVX512VNNI__)

// A lane takes four products of int8.
int64_t int8_operations() { return kChains * 16 * 8; }

float int8_products(float factor, int64_t repeats) {
  __m512i chains[kChains];
  for (int i = 0; i < kChains; ++i) chains[i] = _mm512_set1_epi32(i);
  const __m512i factors = _mm512_set1_epi8(static_cast<char>(factor * 4));
  for (int64_t repeat = 0; repeat < repeats; ++repeat)
    for (int i = 0; i < kChains; ++i) chains[i] = _mm512_dpbusd_epi32(chains[i], factors, factors);
  Vector totals[kChains];
  std::memcpy(totals, chains, sizeof(totals));
  return sum(totals);
}

#else  // Without that instruction the ceiling is float32's.

int64_t int8_operations() { return float32_operations(); }
float int8_products(float factor, int64_t repeats) { return float32_products(factor, repeats); }

#endif
}
