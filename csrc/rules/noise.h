// The Gumbel noise of a token, for host and device, as a function of seed, query, sample, position
// and token alone. The token with the greatest noisy log-prob is a sample (Gumbel 1954; Maddison et
// al., NeurIPS 2014), so sampling is greedy decoding with another argmax, and drafts are verified
// in the same way.
//
// The bits come from Philox 4x32-10 (Salmon et al., SC 2011, "Parallel random numbers: as easy as
// 1, 2, 3"): counters in, bits out, no state. Logarithms and exponentials consist of single
// additions, multiplications and divisions of double, which IEEE 754 rounds alike everywhere. Those
// of math libraries differ in the last bit, which can change a sample. Nothing here may be fused
// (-ffp-contract=off; for a device -fmad=false).

#pragma once

#include <cstdint>
#include <cstring>

#include "common/anywhere.h"

namespace molspec {

struct PhiloxBits {
  uint32_t word[4];
};

MOLSPEC_ANYWHERE inline PhiloxBits philox(PhiloxBits counter, uint64_t key) {
  auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = uint64_t{0xD2511F53} * counter.word[0];
    const uint64_t right = uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {
        {static_cast<uint32_t>(right >> 32) ^ counter.word[1] ^ low, static_cast<uint32_t>(right),
         static_cast<uint32_t>(left >> 32) ^ counter.word[3] ^ high, static_cast<uint32_t>(left)}};
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return counter;
}

// Natural logarithm of a positive, normal number, to about 1e-16 of its value.
MOLSPEC_ANYWHERE inline double fixed_log(double value) {
  constexpr double kLn2 = 0.6931471805599453;
  constexpr uint64_t kMantissa = (uint64_t{1} << 52) - 1, kOne = uint64_t{1023} << 52;
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  auto exponent = static_cast<int32_t>(bits >> 52) - 1023;
  bits = (bits & kMantissa) | kOne;
  double mantissa;
  std::memcpy(&mantissa, &bits, sizeof(bits));
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log m = 2 artanh s, whose series in s * s <= 0.0295 ends below the last bit.
  const double s = (mantissa - 1) / (mantissa + 1), z = s * s;
  double sum = 0;
  for (int32_t n = 23; n >= 1; n -= 2) sum = sum * z + 1.0 / n;
  return static_cast<double>(exponent) * kLn2 + 2 * s * sum;
}

// e to the power of a number of at most 700; 0 below -700.
MOLSPEC_ANYWHERE inline double fixed_exp(double value) {
  constexpr double kPerLn2 = 1.4426950408889634;
  constexpr double kLn2High = 0.693147180369123816490, kLn2Low = 1.90821492927058770002e-10;
  if (!(value > -700)) return 0;
  const double halves = value * kPerLn2 + (value < 0 ? -0.5 : 0.5);
  const auto power = static_cast<int32_t>(halves);
  const double rest = (value - power * kLn2High) - power * kLn2Low;
  double sum = 1;
  for (int32_t n = 14; n >= 1; --n) sum = 1 + sum * rest / n;
  const uint64_t bits = static_cast<uint64_t>(power + 1023) << 52;
  double scale;
  std::memcpy(&scale, &bits, sizeof(bits));
  return sum * scale;
}

// The noise of a query, of one of its samples, or of a path.
class Noise {
 public:
  MOLSPEC_ANYWHERE explicit Noise(uint64_t key) : key_(key) {}

  // The noise of (seed, query); different pairs are independent.
  MOLSPEC_ANYWHERE static Noise of(uint64_t seed, uint64_t query) {
    return Noise(seed).after(static_cast<uint32_t>(query), static_cast<uint32_t>(query >> 32));
  }
  // A new noise for each pair of numbers.
  MOLSPEC_ANYWHERE Noise after(uint32_t a, uint32_t b = 0) const {
    const PhiloxBits bits = philox({{a, b, 0, kKeys}}, key_);
    return Noise(uint64_t{bits.word[1]} << 32 | bits.word[0]);
  }
  // For rejection sampling: the noise that decides on drafts, and the drafter's. They are
  // independent of each other and of this one.
  MOLSPEC_ANYWHERE Noise of_verification() const { return after(0, 1); }
  MOLSPEC_ANYWHERE Noise of_drafter() const { return after(0, 2); }
  // Uniform in the open interval from 0 to 1: an odd multiple of 2^-53.
  MOLSPEC_ANYWHERE double even(uint32_t position, uint32_t token) const {
    const PhiloxBits bits = philox({{token >> 1, position, 0, kDraws}}, key_);
    const uint32_t low = bits.word[2 * (token & 1)], high = bits.word[2 * (token & 1) + 1];
    const uint64_t whole = (uint64_t{high} << 20) | (low >> 12);
    return (static_cast<double>(whole) + 0.5) * (1.0 / 4503599627370496.0);
  }
  // Gumbel-distributed.
  MOLSPEC_ANYWHERE double gumbel(uint32_t position, uint32_t token) const {
    return -fixed_log(-fixed_log(even(position, token)));
  }

 private:
  static constexpr uint32_t kDraws = 0, kKeys = 1;

  uint64_t key_;
};

}  // namespace molspec
