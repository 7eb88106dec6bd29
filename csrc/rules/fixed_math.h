// Exponential and logarithm with the same bits on every machine: those of math libraries differ in
// the last bit, which can change a sample. They consist of single additions, multiplications and
// divisions of double, which IEEE 754 rounds alike everywhere; nothing may be fused
// (-ffp-contract=off). They have no branches, so a compiler makes vectors of them.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace molspec {

constexpr uint64_t kBitsOfOne = uint64_t{1023} << 52;

// e to the power of a number of at most 700, to about 1e-16 of its value; e^-700 below -700.
inline double fixed_exp(double value) {
  constexpr double kPerLn2 = 1.4426950408889634, kRounding = 6755399441055744.0;  // 1.5 * 2^52
  constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.90821492927058770002e-10;
  constexpr auto kSeries = [] {  // 1 / 13!, ..., 1 / 1!, 1 / 0!
    std::array<double, 14> series{};
    double factorial = 1;  // exact
    for (size_t n = 0; n < series.size(); factorial *= static_cast<double>(++n))
      series[series.size() - 1 - n] = 1 / factorial;
    return series;
  }();
  value = std::max(value, -700.0);  // NaN stays
  const double rounded = value * kPerLn2 + kRounding, power = rounded - kRounding;
  const double rest = (value - power * kLn2High) - power * kLn2Low;
  double sum = 0;
#pragma GCC unroll 14
  for (const double coefficient : kSeries) sum = sum * rest + coefficient;
  return sum * std::bit_cast<double>((std::bit_cast<uint64_t>(rounded) << 52) + kBitsOfOne);
}

// Natural logarithm of a positive, normal number, to about 1e-16 of its value; NaN of NaN.
inline double fixed_log(double value) {
  constexpr double kLn2 = 0.6931471805599453, kInteger = 4503599627370496.0;  // 2^52
  constexpr uint64_t kRootHalf = 0x3FE6A09E667F3BCE;  // the bits of the double above 2^-0.5
  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t exponent = (bits + (kBitsOfOne - kRootHalf)) >> 52;
  const auto mantissa = std::bit_cast<double>(bits - (exponent << 52) + kBitsOfOne);
  const double power =
      std::bit_cast<double>(exponent | std::bit_cast<uint64_t>(kInteger)) - (kInteger + 1023);
  // log m = 2 artanh s, whose series in s * s <= 0.0295 ends below the last bit.
  const double s = (mantissa - 1) / (mantissa + 1), z = s * s;
  double sum = 0;
#pragma GCC unroll 12
  for (int32_t n = 23; n >= 1; n -= 2) sum = sum * z + 1.0 / n;
  return power * kLn2 + 2 * s * sum + (value - value);
}

}  // namespace molspec
