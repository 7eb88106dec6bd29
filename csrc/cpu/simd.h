// Sixteen float lanes on every processor: one AVX-512 register, two of AVX2 or four of the
// compiler's own vectors. Kernels are written once for this type and compiled for every instruction
// set. Every operation rounds lane by lane, and reductions add lanes in a fixed order, so all
// instruction sets with fused multiply-add (AVX2, AVX-512, 64-bit ARM) give the same bits; other
// portable code rounds a product before adding it.
//
// Included only by kernel_table.cpp. No standard templates here: the linker might keep a copy that
// was compiled for a newer processor.

#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace {

constexpr int kLanes = 16;

// x86 multiplies unsigned bytes by signed ones, ARM signed ones only: what rounded inputs have
// added.
#if defined(__ARM_NEON)
constexpr int kByteOffset = 0;
#else
constexpr int kByteOffset = 128;
#endif

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

// The compiler's own vectors: NEON on ARM, SSE on x86.
typedef float floats __attribute__((vector_size(16)));
typedef int32_t integers __attribute__((vector_size(16)));
typedef uint32_t words __attribute__((vector_size(16)));

template <typename Four>
struct Lanes {
  Four a, b, c, d;
};
using f32x16 = Lanes<floats>;
using i32x16 = Lanes<integers>;

template <typename Four>
inline Four four_of(const void* from) {
  Four four;
  memcpy(&four, from, sizeof(four));
  return four;
}
// Part by part: the compiler keeps in memory what is copied as a whole.
template <typename Four>
inline Lanes<Four> load_lanes(const void* from) {
  const char* parts = static_cast<const char*>(from);
  return {four_of<Four>(parts), four_of<Four>(parts + 16), four_of<Four>(parts + 32),
          four_of<Four>(parts + 48)};
}
inline floats fours(float a) { return floats{a, a, a, a}; }

inline f32x16 load(const float* from) { return load_lanes<floats>(from); }
inline void store(float* to, f32x16 x) {
  memcpy(to, &x.a, sizeof(x.a));
  memcpy(to + 4, &x.b, sizeof(x.b));
  memcpy(to + 8, &x.c, sizeof(x.c));
  memcpy(to + 12, &x.d, sizeof(x.d));
}
inline f32x16 broadcast(float a) { return {fours(a), fours(a), fours(a), fours(a)}; }
inline f32x16 operator+(f32x16 x, f32x16 y) { return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d}; }
inline f32x16 operator-(f32x16 x, f32x16 y) { return {x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d}; }
inline f32x16 operator*(f32x16 x, f32x16 y) { return {x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d}; }
inline f32x16 operator/(f32x16 x, f32x16 y) { return {x.a / y.a, x.b / y.b, x.c / y.c, x.d / y.d}; }
inline floats max(floats x, floats y) { return x > y ? x : y; }
inline floats min(floats x, floats y) { return x < y ? x : y; }
inline f32x16 max(f32x16 x, f32x16 y) {
  return {max(x.a, y.a), max(x.b, y.b), max(x.c, y.c), max(x.d, y.d)};
}
inline f32x16 min(f32x16 x, f32x16 y) {
  return {min(x.a, y.a), min(x.b, y.b), min(x.c, y.c), min(x.d, y.d)};
}
inline floats multiply_add(floats x, floats y, floats z) {
#if defined(__ARM_NEON) && defined(__clang__)
  return vfmaq_f32(z, x, y);
#elif defined(__ARM_NEON)
  // Not the intrinsic: gcc 12 keeps a tile's sums in memory around it.
  asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(z) : "w"(x), "w"(y));
  return z;
#elif defined(__FP_FAST_FMAF)
  for (int i = 0; i < 4; ++i) z[i] = __builtin_fmaf(x[i], y[i], z[i]);
  return z;
#else
  return x * y + z;
#endif
}
inline f32x16 multiply_add(f32x16 x, f32x16 y, f32x16 z) {
  return {multiply_add(x.a, y.a, z.a), multiply_add(x.b, y.b, z.b), multiply_add(x.c, y.c, z.c),
          multiply_add(x.d, y.d, z.d)};
}
inline f32x16 keep_first(f32x16 x, int count, float other) {
  const integers limit = {count, count, count, count};
  const integers lane = {0, 1, 2, 3};
  const floats rest = fours(other);
  return {lane < limit ? x.a : rest, lane + 4 < limit ? x.b : rest, lane + 8 < limit ? x.c : rest,
          lane + 12 < limit ? x.d : rest};
}
inline floats power_of_two(floats n) {
  return (floats)((__builtin_convertvector(n, integers) + 127) << 23);
}
inline f32x16 scale_by_power(f32x16 x, f32x16 n) {
  return {x.a * power_of_two(n.a), x.b * power_of_two(n.b), x.c * power_of_two(n.c),
          x.d * power_of_two(n.d)};
}
inline f32x16 load_even_bfloat16(const uint16_t* from) {
  const auto x = load_lanes<words>(from);
  return {(floats)(x.a << 16), (floats)(x.b << 16), (floats)(x.c << 16), (floats)(x.d << 16)};
}
inline f32x16 load_odd_bfloat16(const uint16_t* from) {
  const auto x = load_lanes<words>(from);
  const words upper = words{} + 0xffff0000u;
  return {(floats)(x.a & upper), (floats)(x.b & upper), (floats)(x.c & upper),
          (floats)(x.d & upper)};
}

inline i32x16 zeros() { return {integers{}, integers{}, integers{}, integers{}}; }
inline i32x16 broadcast_bytes(const uint8_t* from) {
  int32_t four;
  memcpy(&four, from, sizeof(four));
  const integers bytes = {four, four, four, four};
  return {bytes, bytes, bytes, bytes};
}
inline i32x16 load_integers(const void* from) { return load_lanes<integers>(from); }
// Lowest 32 bits, which signed integers need not keep.
inline integers wrapped(words a) { return (integers)a; }
inline i32x16 operator-(i32x16 x, i32x16 y) {
  return {wrapped((words)x.a - (words)y.a), wrapped((words)x.b - (words)y.b),
          wrapped((words)x.c - (words)y.c), wrapped((words)x.d - (words)y.d)};
}
inline f32x16 as_floats(i32x16 x) {
  return {__builtin_convertvector(x.a, floats), __builtin_convertvector(x.b, floats),
          __builtin_convertvector(x.c, floats), __builtin_convertvector(x.d, floats)};
}
inline integers add_products(integers sum, integers x, integers y) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sum, (int8x16_t)x, (int8x16_t)y);
#elif defined(__ARM_NEON)
  const int8x16_t left = (int8x16_t)x, right = (int8x16_t)y;
  const int16x8_t low = vmull_s8(vget_low_s8(left), vget_low_s8(right));
  const int16x8_t high = vmull_high_s8(left, right);
  return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#else
  for (int shift = 0; shift < 32; shift += 8) {
    const integers left = (x >> shift) & 255, right = wrapped((words)y << (24 - shift)) >> 24;
    sum = wrapped((words)sum + (words)(left * right));
  }
  return sum;
#endif
}
inline i32x16 add_products(i32x16 sum, i32x16 x, i32x16 y) {
  return {add_products(sum.a, x.a, y.a), add_products(sum.b, x.b, y.b),
          add_products(sum.c, x.c, y.c), add_products(sum.d, x.d, y.d)};
}
inline f32x16 nearest(f32x16 a);
inline void store_as_bytes(uint8_t* to, f32x16 x) {
  const f32x16 rounded = nearest(x);
#if defined(__ARM_NEON)
  const auto narrow = [](floats a, floats b) {
    return vmovn_s16(vcombine_s16(vmovn_s32(vcvtq_s32_f32(a)), vmovn_s32(vcvtq_s32_f32(b))));
  };
  vst1_s8(reinterpret_cast<int8_t*>(to), narrow(rounded.a, rounded.b));
  vst1_s8(reinterpret_cast<int8_t*>(to + 8), narrow(rounded.c, rounded.d));
#else
  float lanes[kLanes];
  store(lanes, rounded + broadcast(kByteOffset));
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<uint8_t>(static_cast<int32_t>(lanes[i]));
#endif
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

inline float sum_of_lanes(f32x16 x) {
  const floats four = (x.a + x.c) + (x.b + x.d);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
inline float max_of_lanes(f32x16 x) {
  const floats four = max(max(x.a, x.c), max(x.b, x.d));
  const float even = four[0] > four[2] ? four[0] : four[2];
  const float odd = four[1] > four[3] ? four[1] : four[3];
  return even > odd ? even : odd;
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
