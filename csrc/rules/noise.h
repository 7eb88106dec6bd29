// The Gumbel noise of a token, as a function of seed, query, sample, position and token alone. The
// token with the greatest noisy log-prob is a sample (Gumbel 1954; Maddison et al., NeurIPS 2014),
// so sampling is greedy decoding with another argmax, and drafts are verified in the same way.
//
// The bits come from Philox 4x32-10 (Salmon et al., SC 2011, "Parallel random numbers: as easy as
// 1, 2, 3"): counters in, bits out, no state. Logarithms are those of fixed_math.h.

#pragma once

#include <array>
#include <cstdint>

#include "rules/fixed_math.h"

namespace molspec {

using PhiloxBits = std::array<uint32_t, 4>;

inline PhiloxBits philox(PhiloxBits counter, uint64_t key) {
  auto low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = uint64_t{0xD2511F53} * counter[0];
    const uint64_t right = uint64_t{0xCD9E8D57} * counter[2];
    counter = {{static_cast<uint32_t>(right >> 32) ^ counter[1] ^ low, static_cast<uint32_t>(right),
                static_cast<uint32_t>(left >> 32) ^ counter[3] ^ high,
                static_cast<uint32_t>(left)}};
    low += 0x9E3779B9;
    high += 0xBB67AE85;
  }
  return counter;
}

// The noise of a query, of one of its samples, or of a path.
class Noise {
 public:
  explicit Noise(uint64_t key) : key_(key) {}

  // The noise of (seed, query); different pairs are independent.
  static Noise of(uint64_t seed, uint64_t query) {
    return Noise(seed).after(static_cast<uint32_t>(query), static_cast<uint32_t>(query >> 32));
  }
  // A new noise for each pair of numbers.
  Noise after(uint32_t a, uint32_t b = 0) const {
    const PhiloxBits bits = philox({{a, b, 0, kKeys}}, key_);
    return Noise(uint64_t{bits[1]} << 32 | bits[0]);
  }
  // For rejection sampling: the noise that decides on drafts, and the drafter's. They are
  // independent of each other and of this one.
  Noise of_verification() const { return after(0, 1); }
  Noise of_drafter() const { return after(0, 2); }
  // Uniform in the open interval from 0 to 1: an odd multiple of 2^-53.
  double even(uint32_t position, uint32_t token) const {
    const PhiloxBits bits = philox({{token >> 1, position, 0, kDraws}}, key_);
    const uint32_t low = bits[2 * (token & 1)], high = bits[2 * (token & 1) + 1];
    const uint64_t whole = (uint64_t{high} << 20) | (low >> 12);
    return (static_cast<double>(whole) + 0.5) * (1.0 / 4503599627370496.0);
  }
  // Gumbel-distributed.
  double gumbel(uint32_t position, uint32_t token) const {
    return -fixed_log(-fixed_log(even(position, token)));
  }

 private:
  static constexpr uint32_t kDraws = 0, kKeys = 1;

  uint64_t key_;
};

}  // namespace molspec
