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

// Sixteen lanes are one to four parts, each a register. `each` makes lanes of the parts that a
// function gives for their numbers, `zip` of those that it gives for the parts of other lanes.
// Parts are members, not an array: the compiler keeps in memory what is indexed.
#if defined(__AVX512F__)

constexpr int kPartLanes = 16;
template <typename Part>
struct Lanes {
  Part a;
};
template <typename Function>
inline auto each(const Function& part) -> Lanes<decltype(part(0))> {
  return {part(0)};
}
template <typename Function, typename... Parts>
inline auto zip(const Function& of, Lanes<Parts>... x) -> Lanes<decltype(of(x.a...))> {
  return {of(x.a...)};
}

#elif defined(__AVX2__)

constexpr int kPartLanes = 8;
template <typename Part>
struct Lanes {
  Part a, b;
};
template <typename Function>
inline auto each(const Function& part) -> Lanes<decltype(part(0))> {
  return {part(0), part(1)};
}
template <typename Function, typename... Parts>
inline auto zip(const Function& of, Lanes<Parts>... x) -> Lanes<decltype(of(x.a...))> {
  return {of(x.a...), of(x.b...)};
}

#else  // the compiler's own vectors: NEON on ARM, SSE on x86

constexpr int kPartLanes = 4;
template <typename Part>
struct Lanes {
  Part a, b, c, d;
};
template <typename Function>
inline auto each(const Function& part) -> Lanes<decltype(part(0))> {
  return {part(0), part(1), part(2), part(3)};
}
template <typename Function, typename... Parts>
inline auto zip(const Function& of, Lanes<Parts>... x) -> Lanes<decltype(of(x.a...))> {
  return {of(x.a...), of(x.b...), of(x.c...), of(x.d...)};
}

#endif

typedef float floats __attribute__((vector_size(4 * kPartLanes)));
typedef int32_t integers __attribute__((vector_size(4 * kPartLanes)));
typedef uint32_t words __attribute__((vector_size(4 * kPartLanes)));
using f32x16 = Lanes<floats>;
using i32x16 = Lanes<integers>;  // sixteen integers, or sixteen times four bytes

template <typename Part>
inline Lanes<Part> load_lanes(const void* from) {
  return each([&](int i) -> Part {
    Part part;
    memcpy(&part, static_cast<const char*>(from) + i * sizeof(part), sizeof(part));
    return part;
  });
}
inline f32x16 load(const float* from) { return load_lanes<floats>(from); }
inline i32x16 load_integers(const void* from) { return load_lanes<integers>(from); }
inline void store(float* to, f32x16 x) {
  zip(
      [&](floats part) {
        memcpy(to, &part, sizeof(part));
        return to += kPartLanes;
      },
      x);
}
inline f32x16 operator+(f32x16 x, f32x16 y) {
  return zip([](floats a, floats b) -> floats { return a + b; }, x, y);
}
inline f32x16 operator-(f32x16 x, f32x16 y) {
  return zip([](floats a, floats b) -> floats { return a - b; }, x, y);
}
inline f32x16 operator*(f32x16 x, f32x16 y) {
  return zip([](floats a, floats b) -> floats { return a * b; }, x, y);
}
inline f32x16 operator/(f32x16 x, f32x16 y) {
  return zip([](floats a, floats b) -> floats { return a / b; }, x, y);
}

// Lowest 32 bits, which signed integers need not keep.
inline integers wrapped(words a) { return (integers)a; }
inline i32x16 operator-(i32x16 x, i32x16 y) {
  return zip([](integers a, integers b) { return wrapped((words)a - (words)b); }, x, y);
}
inline i32x16 zeros() {
  return each([](int) { return integers{}; });
}
inline i32x16 broadcast_integer(int32_t a) {
  return each([&](int) -> integers { return integers{} + a; });
}
inline i32x16 broadcast_bytes(const uint8_t* from) {
  int32_t four;
  memcpy(&four, from, sizeof(four));
  return broadcast_integer(four);
}
inline f32x16 as_floats(i32x16 x) {
  return zip([](integers a) { return __builtin_convertvector(a, floats); }, x);
}
// a * 2^n for integer lanes n in [-126, 127].
inline f32x16 scale_by_power(f32x16 x, f32x16 n) {
  return zip(
      [](floats a, floats power) -> floats {
        return a * (floats)((__builtin_convertvector(power, integers) + 127) << 23);
      },
      x, n);
}
// The first, or the second, of each of sixteen pairs of bfloat16, as floats.
inline f32x16 load_even_bfloat16(const uint16_t* from) {
  return zip([](words pairs) { return (floats)(pairs << 16); }, load_lanes<words>(from));
}
inline f32x16 load_odd_bfloat16(const uint16_t* from) {
  return zip([](words pairs) { return (floats)(pairs & (words{} + 0xffff0000u)); },
             load_lanes<words>(from));
}
// The nearest integer, ties to even, for |a| below 2^22.
template <typename Part>
inline Part nearest(Part a) {
  return (a + 12582912.0f) - 12582912.0f;  // 1.5 * 2^23: leaves no fraction bits
}
inline f32x16 nearest(f32x16 x) {
  return zip([](floats a) -> floats { return nearest(a); }, x);
}

#if defined(__AVX512F__)

inline f32x16 broadcast(float a) { return {_mm512_set1_ps(a)}; }
inline floats max(floats a, floats b) { return _mm512_max_ps(a, b); }
inline floats min(floats a, floats b) { return _mm512_min_ps(a, b); }
inline floats multiply_add(floats a, floats b, floats c) {
  // Not the intrinsic: gcc 12 moves some of a tile's sums through memory around it.
  asm("vfmadd231ps {%2, %1, %0|%0, %1, %2}" : "+v"(c) : "v"(a), "v"(b));
  return c;
}
inline __mmask16 first_lanes(int count) {
  return count >= kLanes ? 0xffff : static_cast<__mmask16>((1u << count) - 1);
}
// The first `count` lanes of x, and `other` in the rest.
inline f32x16 keep_first(f32x16 x, int count, float other) {
  return {_mm512_mask_blend_ps(first_lanes(count), _mm512_set1_ps(other), x.a)};
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
// Lane by lane: the sum, and the products of four unsigned bytes of x and four signed ones of y.
inline integers add_products(integers sum, integers x, integers y) {
#if defined(__AVX512VNNI__)
  // Not the intrinsic: gcc 12 copies the sums of a tile back and forth around it.
  asm("vpdpbusd {%2, %1, %0|%0, %1, %2}" : "+v"(sum) : "v"(x), "v"(y));
  return sum;
#else
  const __m512i a = (__m512i)x, b = (__m512i)y;
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(a, _mm512_set1_epi16(255)),
                                         _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(a, 8), _mm512_srai_epi16(b, 8));
  return sum + ((integers)even + (integers)odd);
#endif
}
// The nearest integers of lanes in [-128, 127], with kByteOffset added, as bytes.
inline void store_as_bytes(uint8_t* to, f32x16 x) {
  const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.a));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_xor_si128(bytes, _mm_set1_epi8(-128)));
}
// Those of four registers: packing them leaves their fours in turns.
inline void store_as_bytes(uint8_t* to, f32x16 x, f32x16 y, f32x16 z, f32x16 w) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(x.a), _mm512_cvtps_epi32(y.a));
  const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(z.a), _mm512_cvtps_epi32(w.a));
  const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
  _mm512_storeu_si512(to, _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)));
}

#else

#if defined(__AVX2__)

inline f32x16 broadcast(float a) { return {_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
inline floats max(floats a, floats b) { return _mm256_max_ps(a, b); }
inline floats min(floats a, floats b) { return _mm256_min_ps(a, b); }
inline floats multiply_add(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
inline integers add_products(integers sum, integers x, integers y) {
  const __m256i a = (__m256i)x, b = (__m256i)y;
#if defined(__AVXVNNI__)
  return (integers)_mm256_dpbusd_avx_epi32((__m256i)sum, a, b);
#else
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(255)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
  return sum + ((integers)even + (integers)odd);
#endif
}

#else

inline f32x16 broadcast(float a) {
  return each([&](int) { return floats{a, a, a, a}; });
}
inline floats max(floats a, floats b) { return a > b ? a : b; }
inline floats min(floats a, floats b) { return a < b ? a : b; }
inline floats multiply_add(floats a, floats b, floats c) {
#if defined(__ARM_NEON) && defined(__clang__)
  return vfmaq_f32(c, a, b);
#elif defined(__ARM_NEON)
  // Not the intrinsic: gcc 12 keeps a tile's sums in memory around it.
  asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(c) : "w"(a), "w"(b));
  return c;
#elif defined(__FP_FAST_FMAF)
  for (int i = 0; i < 4; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
#else
  return a * b + c;
#endif
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

#endif

inline f32x16 keep_first(f32x16 x, int count, float other) {
  static constexpr int32_t kNumbers[kLanes] = {0, 1, 2,  3,  4,  5,  6,  7,
                                               8, 9, 10, 11, 12, 13, 14, 15};
  const integers limit = integers{} + count;
  return zip([&](integers lane, floats a, floats rest) { return lane < limit ? a : rest; },
             load_integers(kNumbers), x, broadcast(other));
}
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
inline void store_as_bytes(uint8_t* to, f32x16 x) {
#if defined(__ARM_NEON)
  const f32x16 rounded = nearest(x);
  const auto narrow = [](floats a, floats b) {
    return vmovn_s16(vcombine_s16(vmovn_s32(vcvtq_s32_f32(a)), vmovn_s32(vcvtq_s32_f32(b))));
  };
  vst1_s8(reinterpret_cast<int8_t*>(to), narrow(rounded.a, rounded.b));
  vst1_s8(reinterpret_cast<int8_t*>(to + 8), narrow(rounded.c, rounded.d));
#else
  float lanes[kLanes];
  store(lanes, nearest(x) + broadcast(kByteOffset));
  for (int i = 0; i < kLanes; ++i) to[i] = static_cast<uint8_t>(static_cast<int32_t>(lanes[i]));
#endif
}

#endif

// a * b + c
inline f32x16 multiply_add(f32x16 x, f32x16 y, f32x16 z) {
  return zip([](floats a, floats b, floats c) { return multiply_add(a, b, c); }, x, y, z);
}
#if defined(__AVX2__) || defined(__ARM_NEON)
#define MOLSPEC_INTERLEAVES
// Bytes, or pairs of bytes, of x and y in turns: the low or the high half of each 128 bits.
#if defined(__AVX512F__)
using Bits = __m512i;
inline Bits low_bytes(Bits x, Bits y) { return _mm512_unpacklo_epi8(x, y); }
inline Bits high_bytes(Bits x, Bits y) { return _mm512_unpackhi_epi8(x, y); }
inline Bits low_pairs(Bits x, Bits y) { return _mm512_unpacklo_epi16(x, y); }
inline Bits high_pairs(Bits x, Bits y) { return _mm512_unpackhi_epi16(x, y); }
#elif defined(__AVX2__)
using Bits = __m256i;
inline Bits low_bytes(Bits x, Bits y) { return _mm256_unpacklo_epi8(x, y); }
inline Bits high_bytes(Bits x, Bits y) { return _mm256_unpackhi_epi8(x, y); }
inline Bits low_pairs(Bits x, Bits y) { return _mm256_unpacklo_epi16(x, y); }
inline Bits high_pairs(Bits x, Bits y) { return _mm256_unpackhi_epi16(x, y); }
#else
using Bits = int8x16_t;
inline Bits low_bytes(Bits x, Bits y) { return vzip1q_s8(x, y); }
inline Bits high_bytes(Bits x, Bits y) { return vzip2q_s8(x, y); }
inline Bits low_pairs(Bits x, Bits y) { return (Bits)vzip1q_s16((int16x8_t)x, (int16x8_t)y); }
inline Bits high_pairs(Bits x, Bits y) { return (Bits)vzip2q_s16((int16x8_t)x, (int16x8_t)y); }
#endif
template <Bits (*kHalf)(Bits, Bits)>
inline i32x16 interleaved(i32x16 x, i32x16 y) {
  return zip([](integers a, integers b) { return (integers)kHalf((Bits)a, (Bits)b); }, x, y);
}
#endif

inline i32x16 add_products(i32x16 sum, i32x16 x, i32x16 y) {
  return zip([](integers a, integers b, integers c) { return add_products(a, b, c); }, sum, x, y);
}
inline f32x16 max(f32x16 x, f32x16 y) {
  return zip([](floats a, floats b) { return max(a, b); }, x, y);
}
inline f32x16 min(f32x16 x, f32x16 y) {
  return zip([](floats a, floats b) { return min(a, b); }, x, y);
}

// max and min return their second argument if either is NaN: values that may be NaN go there.

// Lanes are combined as a balanced tree: 0 with 8, 1 with 9, ..., then 0 with 4, 0 with 2, 0
// with 1.
#if defined(__AVX2__)

inline __m256 low_half(f32x16 a) {
#if defined(__AVX512F__)
  return _mm512_castps512_ps256(a.a);
#else
  return a.a;
#endif
}
inline __m256 high_half(f32x16 a) {
#if defined(__AVX512F__)
  return _mm512_extractf32x8_ps(a.a, 1);
#else
  return a.b;
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
