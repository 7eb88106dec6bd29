// The mean of the probabilities that several models give the same tokens.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rules/fixed_math.h"

namespace molspec {

// Replaces the log-probs of the first part by the logs of the arithmetic means over all parts,
// entry by entry. Parts are added in their order, in double; equal ones give their own bits. An
// entry that is not a number in a part is none in the mean; one that is impossible in every part
// (-infinity) is so in the mean.
inline void average_log_probs(float* first, const std::vector<const float*>& others, int64_t size) {
  constexpr int64_t kBlock = 256;
  // Less than every float but -infinity: no difference is that of two infinities, and as a float it
  // is -infinity.
  constexpr double kLeast = -1e300;
  const auto count = static_cast<double>(others.size() + 1);
  double greatest[kBlock], sums[kBlock];
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t length = std::min(kBlock, size - begin);
    float* own = first + begin;
    for (int64_t i = 0; i < length; ++i) greatest[i] = std::max<double>(own[i], kLeast);
    for (const float* other : others)
      for (int64_t i = 0; i < length; ++i)
        greatest[i] = std::max<double>(greatest[i], other[begin + i]);
    for (int64_t i = 0; i < length; ++i) sums[i] = fixed_exp(own[i] - greatest[i]);
    for (const float* other : others)
      for (int64_t i = 0; i < length; ++i) sums[i] += fixed_exp(other[begin + i] - greatest[i]);
    for (int64_t i = 0; i < length; ++i)
      own[i] = static_cast<float>(greatest[i] + fixed_log(sums[i] / count));
  }
}

}  // namespace molspec
