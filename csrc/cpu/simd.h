// Sixteen float lanes on every processor: one AVX-512 register, two AVX2 registers or a plain
// array. Kernels are written once for this type and compiled for every instruction set. Every
// operation rounds lane by lane, and reductions add lanes in a fixed order, so all instruction sets
// with fused multiply-add (AVX2, AVX-512, 64-bit ARM) give the same bits; other portable code
// rounds a product before adding it.
//
// Included only by kernel_table.cpp. No standard templates here: the linker might keep a copy that
// was compiled for a newer processor.

#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

constexpr int kLanes = 16;

#if defined(__AVX512F__)

struct f32x16 {
  __m512 value;
};
inline f32x16 load(const float* from) { return {_mm512_loadu_ps(from)}; }
inline void store(float* to, f32x16 a) { _mm512_storeu_ps(to, a.value); }
inline f32x16 broadcast(float a) { return {_mm512_set1_ps(a)}; }
inline f32x16 operator+(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.value, b.value)}; }
inline f32x16 operator-(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.value, b.value)}; }
inline f32x16 operator*(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.value, b.value)}; }
inline f32x16 operator/(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.value, b.value)}; }
inline f32x16 max(f32x16 a, f32x16 b) { return {_mm512_max_ps(a.value, b.value)}; }
inline f32x16 min(f32x16 a, f32x16 b) { return {_mm512_min_ps(a.value, b.value)}; }
// a * b + c
inline f32x16 multiply_add(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm512_fmadd_ps(a.value, b.value, c.value)};
}
inline __mmask16 first_lanes(int count) {
  return count >= kLanes ? 0xffff : static_cast<__mmask16>((1u << count) - 1);
}
// from[indices[i]] in lane i of the first `count`; the other indices are not read. `from` has
// `registers` * 16 floats: permuting two registers at a time is faster than a gather.
class Selection {
 public:
  Selection(const int32_t* indices, int count, int registers)
      : index_(_mm512_maskz_loadu_epi32(first_lanes(count), indices)),
        pair_(_mm512_srli_epi32(index_, 5)),
        registers_(registers) {}
  f32x16 of(const float* from) const {
    __m512 selected = two_of(from, 0);
    for (int i = 2; i < registers_; i += 2) {
      const __mmask16 here = _mm512_cmpeq_epi32_mask(pair_, _mm512_set1_epi32(i / 2));
      selected = _mm512_mask_mov_ps(selected, here, two_of(from, i));
    }
    return {selected};
  }

 private:
  __m512 two_of(const float* from, int i) const {
    const __m512 first = _mm512_loadu_ps(from + i * kLanes);
    if (i + 1 == registers_) return _mm512_permutexvar_ps(index_, first);
    return _mm512_permutex2var_ps(first, index_, _mm512_loadu_ps(from + (i + 1) * kLanes));
  }

  __m512i index_, pair_;
  int registers_;
};
// The first `count` lanes of a, and `other` in the rest.
inline f32x16 keep_first(f32x16 a, int count, float other) {
  return {_mm512_mask_blend_ps(first_lanes(count), _mm512_set1_ps(other), a.value)};
}
// a * 2^n for integer lanes n in [-126, 127].
inline f32x16 scale_by_power(f32x16 a, f32x16 n) {
  const __m512i bits =
      _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.value), _mm512_set1_epi32(127)), 23);
  return {_mm512_mul_ps(a.value, _mm512_castsi512_ps(bits))};
}
// The first, or the second, of each of sixteen pairs of bfloat16, as floats.
inline f32x16 load_even_bfloat16(const uint16_t* from) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(from), 16))};
}
inline f32x16 load_odd_bfloat16(const uint16_t* from) {
  const __m512i upper = _mm512_set1_epi32(-65536);
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(from), upper))};
}

// Sixteen integers, or sixteen times four bytes.
struct i32x16 {
  __m512i value;
};
inline i32x16 zeros() { return {_mm512_setzero_si512()}; }
inline i32x16 broadcast_bytes(const uint8_t* from) {
  int32_t four;
  memcpy(&four, from, sizeof(four));
  return {_mm512_set1_epi32(four)};
}
// Lane by lane: the sum, and the products of four unsigned bytes of a and four signed ones of b.
inline i32x16 add_products(i32x16 sum, i32x16 unsigned_bytes, i32x16 signed_bytes) {
  const __m512i a = unsigned_bytes.value, b = signed_bytes.value;
#if defined(__AVX512VNNI__)
  // Not the intrinsic: gcc 12 copies the sums of a tile back and forth around it.
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.value) : "v"(a), "v"(b));
  return sum;
#else
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(a, _mm512_set1_epi16(255)),
                                         _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(a, 8), _mm512_srai_epi16(b, 8));
  return {_mm512_add_epi32(sum.value, _mm512_add_epi32(even, odd))};
#endif
}
inline i32x16 load_integers(const void* from) { return {_mm512_loadu_si512(from)}; }
inline i32x16 operator-(i32x16 a, i32x16 b) { return {_mm512_sub_epi32(a.value, b.value)}; }
inline f32x16 as_floats(i32x16 a) { return {_mm512_cvtepi32_ps(a.value)}; }
// 128 more than the nearest integers of lanes in [-128, 127], as bytes.
inline void store_as_bytes(uint8_t* to, f32x16 a) {
  const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.value));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_xor_si128(bytes, _mm_set1_epi8(-128)));
}

#elif defined(__AVX2__)

struct f32x16 {
  __m256 low, high;
};
inline f32x16 load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline void store(float* to, f32x16 a) {
  _mm256_storeu_ps(to, a.low);
  _mm256_storeu_ps(to + 8, a.high);
}
inline f32x16 broadcast(float a) { return {_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
inline f32x16 operator+(f32x16 a, f32x16 b) { return {a.low + b.low, a.high + b.high}; }
inline f32x16 operator-(f32x16 a, f32x16 b) { return {a.low - b.low, a.high - b.high}; }
inline f32x16 operator*(f32x16 a, f32x16 b) { return {a.low * b.low, a.high * b.high}; }
inline f32x16 operator/(f32x16 a, f32x16 b) { return {a.low / b.low, a.high / b.high}; }
inline f32x16 max(f32x16 a, f32x16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline f32x16 min(f32x16 a, f32x16 b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline f32x16 multiply_add(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline f32x16 keep_first(f32x16 a, int count, float other) {
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i limit = _mm256_set1_epi32(count);
  const __m256 keep_low = _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, low));
  const __m256 keep_high =
      _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, _mm256_add_epi32(low, _mm256_set1_epi32(8))));
  const __m256 rest = _mm256_set1_ps(other);
  return {_mm256_blendv_ps(rest, a.low, keep_low), _mm256_blendv_ps(rest, a.high, keep_high)};
}
inline __m256 power_of_two(__m256 n) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
inline f32x16 scale_by_power(f32x16 a, f32x16 n) {
  return {_mm256_mul_ps(a.low, power_of_two(n.low)), _mm256_mul_ps(a.high, power_of_two(n.high))};
}
inline f32x16 load_even_bfloat16(const uint16_t* from) {
  const __m256i* pairs = reinterpret_cast<const __m256i*>(from);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(pairs), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(pairs + 1), 16))};
}
inline f32x16 load_odd_bfloat16(const uint16_t* from) {
  const __m256i* pairs = reinterpret_cast<const __m256i*>(from);
  const __m256i upper = _mm256_set1_epi32(-65536);
  return {_mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(pairs), upper)),
          _mm256_castsi256_ps(_mm256_and_si256(_mm256_loadu_si256(pairs + 1), upper))};
}

struct i32x16 {
  __m256i low, high;
};
inline i32x16 zeros() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline __m256i add_products(__m256i sum, __m256i a, __m256i b) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, a, b);
#else
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(255)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
  return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
#endif
}
inline i32x16 add_products(i32x16 sum, i32x16 a, i32x16 b) {
  return {add_products(sum.low, a.low, b.low), add_products(sum.high, a.high, b.high)};
}
inline i32x16 broadcast_bytes(const uint8_t* from) {
  int32_t four;
  memcpy(&four, from, sizeof(four));
  return {_mm256_set1_epi32(four), _mm256_set1_epi32(four)};
}
inline i32x16 load_integers(const void* from) {
  const __m256i* lanes = static_cast<const __m256i*>(from);
  return {_mm256_loadu_si256(lanes), _mm256_loadu_si256(lanes + 1)};
}
inline i32x16 operator-(i32x16 a, i32x16 b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
inline f32x16 as_floats(i32x16 a) {
  return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)};
}
inline void store_as_bytes(uint8_t* to, f32x16 a) {
  alignas(32) int32_t lanes[kLanes];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_cvtps_epi32(a.low));
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes + 8), _mm256_cvtps_epi32(a.high));
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<uint8_t>(lanes[i] + 128);
}

#else

struct f32x16 {
  float lane[kLanes];
};
template <typename Function>
inline f32x16 each_lane(Function function) {
  f32x16 result;
  for (int i = 0; i < kLanes; ++i) result.lane[i] = function(i);
  return result;
}
inline f32x16 load(const float* from) {
  return each_lane([=](int i) { return from[i]; });
}
inline void store(float* to, f32x16 a) { memcpy(to, a.lane, sizeof(a.lane)); }
inline f32x16 broadcast(float a) {
  return each_lane([=](int) { return a; });
}
inline f32x16 operator+(f32x16 a, f32x16 b) {
  return each_lane([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline f32x16 operator-(f32x16 a, f32x16 b) {
  return each_lane([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline f32x16 operator*(f32x16 a, f32x16 b) {
  return each_lane([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline f32x16 operator/(f32x16 a, f32x16 b) {
  return each_lane([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline f32x16 max(f32x16 a, f32x16 b) {
  return each_lane([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline f32x16 min(f32x16 a, f32x16 b) {
  return each_lane([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline f32x16 multiply_add(f32x16 a, f32x16 b, f32x16 c) {
#if defined(__FP_FAST_FMAF)
  return each_lane([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
#else
  return each_lane([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
#endif
}
inline f32x16 keep_first(f32x16 a, int count, float other) {
  return each_lane([&](int i) { return i < count ? a.lane[i] : other; });
}
inline float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
inline f32x16 scale_by_power(f32x16 a, f32x16 n) {
  return each_lane([&](int i) {
    return a.lane[i] *
           from_bits(static_cast<uint32_t>(static_cast<int32_t>(n.lane[i]) + 127) << 23);
  });
}
inline f32x16 load_even_bfloat16(const uint16_t* from) {
  return each_lane([=](int i) { return from_bits(static_cast<uint32_t>(from[2 * i]) << 16); });
}
inline f32x16 load_odd_bfloat16(const uint16_t* from) {
  return each_lane([=](int i) { return from_bits(static_cast<uint32_t>(from[2 * i + 1]) << 16); });
}

struct i32x16 {
  int32_t lane[kLanes];
};
// The sum's lowest 32 bits.
inline int32_t wrapped(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
inline i32x16 zeros() { return {}; }
inline i32x16 broadcast_bytes(const uint8_t* from) {
  i32x16 bytes;
  for (int i = 0; i < kLanes; ++i) memcpy(&bytes.lane[i], from, sizeof(bytes.lane[i]));
  return bytes;
}
inline i32x16 add_products(i32x16 sum, i32x16 a, i32x16 b) {
  for (int i = 0; i < kLanes; ++i) {
    uint8_t left[4];
    int8_t right[4];
    memcpy(left, &a.lane[i], sizeof(left));
    memcpy(right, &b.lane[i], sizeof(right));
    for (int k = 0; k < 4; ++k) sum.lane[i] = wrapped(sum.lane[i], left[k] * right[k]);
  }
  return sum;
}
inline i32x16 load_integers(const void* from) {
  i32x16 integers;
  memcpy(integers.lane, from, sizeof(integers.lane));
  return integers;
}
inline i32x16 operator-(i32x16 a, i32x16 b) {
  for (int i = 0; i < kLanes; ++i) a.lane[i] = wrapped(a.lane[i], -b.lane[i]);
  return a;
}
inline f32x16 as_floats(i32x16 a) {
  return each_lane([&](int i) { return static_cast<float>(a.lane[i]); });
}
inline f32x16 nearest(f32x16 a);
inline void store_as_bytes(uint8_t* to, f32x16 a) {
  const f32x16 bytes = nearest(a) + broadcast(128.0f);
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<uint8_t>(bytes.lane[i]);
}

#endif

#if !defined(__AVX512F__)
class Selection {
 public:
  Selection(const int32_t* indices, int count, int) : indices_(indices), count_(count) {}
  f32x16 of(const float* from) const {
    float lanes[kLanes] = {};
    for (int i = 0; i < kLanes && i < count_; ++i) lanes[i] = from[indices_[i]];
    return load(lanes);
  }

 private:
  const int32_t* indices_;
  int count_;
};
#endif

// max and min return their second argument if either is NaN: values that may be NaN go there.

// Lanes are combined as a balanced tree: 0 with 8, 1 with 9, ..., then 0 with 4, 0 with 2, 0
// with 1.
#if defined(__AVX2__)

inline __m256 low_half(f32x16 a) {
#if defined(__AVX512F__)
  return _mm512_castps512_ps256(a.value);
#else
  return a.low;
#endif
}
inline __m256 high_half(f32x16 a) {
#if defined(__AVX512F__)
  return _mm512_extractf32x8_ps(a.value, 1);
#else
  return a.high;
#endif
}
inline float sum_of_lanes(f32x16 a) {
  const __m256 eight = _mm256_add_ps(low_half(a), high_half(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float max_of_lanes(f32x16 a) {
  const __m256 eight = _mm256_max_ps(low_half(a), high_half(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

#else

inline float sum_of_lanes(f32x16 a) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.lane[i] += a.lane[i + half];
  }
  return a.lane[0];
}
inline float max_of_lanes(f32x16 a) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i)
      a.lane[i] = a.lane[i] > a.lane[i + half] ? a.lane[i] : a.lane[i + half];
  }
  return a.lane[0];
}

#endif

// The nearest integer, ties to even, for |a| below 2^22.
inline f32x16 nearest(f32x16 a) {
  const f32x16 magic = broadcast(12582912.0f);  // 1.5 * 2^23: leaves no fraction bits
  return (a + magic) - magic;
}

// e^a for a clamped to [-87.3, 88], NaN for NaN, within two units in the last place. Cody-Waite
// reduction by ln 2 in two parts, then a polynomial that is minimax on [-ln 2 / 2, ln 2 / 2]
// (Cephes, expf).
inline f32x16 exponential(f32x16 a) {
  const f32x16 clamped = min(broadcast(88.0f), max(broadcast(-87.33654f), a));
  const f32x16 n = nearest(clamped * broadcast(1.44269504f));
  f32x16 r = multiply_add(n, broadcast(-0.693359375f), clamped);
  r = multiply_add(n, broadcast(2.12194440e-4f), r);
  f32x16 p = broadcast(1.9875691500e-4f);
  p = multiply_add(p, r, broadcast(1.3981999507e-3f));
  p = multiply_add(p, r, broadcast(8.3334519073e-3f));
  p = multiply_add(p, r, broadcast(4.1665795894e-2f));
  p = multiply_add(p, r, broadcast(1.6666665459e-1f));
  p = multiply_add(p, r, broadcast(5.0000001201e-1f));
  p = multiply_add(p, r * r, r + broadcast(1.0f));
  return scale_by_power(p, n);
}

}  // namespace
