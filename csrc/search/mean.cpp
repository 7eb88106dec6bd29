#include "search/mean.h"

#include <algorithm>
#include <bit>

namespace molspec {
namespace {

// As fixed_exp and fixed_log (rules/noise.h), and as good, but without branches and divisions by
// the series' numbers: a compiler makes vectors of them. Each entry's operations stay the same, so
// its bits do not depend on its place.

constexpr uint64_t kOne = uint64_t{1023} << 52;  // the bits of 1.0

// e to the power of a number of at most 0; e to the power of -700 below that.
inline double exp_of(double value) {
  constexpr double kPerLn2 = 1.4426950408889634, kRounding = 6755399441055744.0;  // 1.5 * 2^52
  constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.90821492927058770002e-10;
  constexpr double kSeries[] = {1. / 6227020800,
                                1. / 479001600,
                                1. / 39916800,
                                1. / 3628800,
                                1. / 362880,
                                1. / 40320,
                                1. / 5040,
                                1. / 720,
                                1. / 120,
                                1. / 24,
                                1. / 6,
                                1. / 2,
                                1.,
                                1.};
  value = std::max(value, -700.0);  // NaN stays
  const double rounded = value * kPerLn2 + kRounding, power = rounded - kRounding;
  const double rest = (value - power * kLn2High) - power * kLn2Low;
  double sum = 0;
#pragma GCC unroll 14
  for (const double coefficient : kSeries) sum = sum * rest + coefficient;
  return sum * std::bit_cast<double>((std::bit_cast<uint64_t>(rounded) << 52) + kOne);
}

// Natural logarithm of a positive, normal number; NaN of NaN.
inline double log_of(double value) {
  constexpr double kLn2 = 0.6931471805599453, kInteger = 4503599627370496.0;  // 2^52
  constexpr uint64_t kRootHalf = 0x3FE6A09E667F3BCD;                          // the bits of 2^-0.5
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t exponent = (bits + (kOne - kRootHalf)) >> 52;
  const auto mantissa = std::bit_cast<double>(bits - (exponent << 52) + kOne);
  const double power =
      std::bit_cast<double>(exponent | std::bit_cast<uint64_t>(kInteger)) - (kInteger + 1023);
  // log m = 2 artanh s
  const double s = (mantissa - 1) / (mantissa + 1), z = s * s;
  double sum = 0;
#pragma GCC unroll 12
  for (int32_t n = 23; n >= 1; n -= 2) sum = sum * z + 1.0 / n;
  return power * kLn2 + 2 * s * sum + (value - value);
}

}  // namespace

void average_log_probs(float* first, const std::vector<const float*>& others, int64_t size) {
  constexpr int64_t kBlock = 256;
  const auto count = static_cast<double>(others.size() + 1);
  double greatest[kBlock], sums[kBlock];
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t length = std::min(kBlock, size - begin);
    float* own = first + begin;
    for (int64_t i = 0; i < length; ++i) greatest[i] = own[i];
    for (const float* other : others)
      for (int64_t i = 0; i < length; ++i)
        greatest[i] = std::max<double>(greatest[i], other[begin + i]);
    for (int64_t i = 0; i < length; ++i) sums[i] = exp_of(own[i] - greatest[i]);
    for (const float* other : others)
      for (int64_t i = 0; i < length; ++i) sums[i] += exp_of(other[begin + i] - greatest[i]);
    for (int64_t i = 0; i < length; ++i)
      own[i] = static_cast<float>(greatest[i] + log_of(sums[i] / count));
  }
}

}  // namespace molspec
