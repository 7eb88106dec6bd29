#include "search/mean.h"

#include <algorithm>

#include "rules/fixed_math.h"

namespace molspec {

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
    for (int64_t i = 0; i < length; ++i) sums[i] = fixed_exp(own[i] - greatest[i]);
    for (const float* other : others)
      for (int64_t i = 0; i < length; ++i) sums[i] += fixed_exp(other[begin + i] - greatest[i]);
    for (int64_t i = 0; i < length; ++i)
      own[i] = static_cast<float>(greatest[i] + fixed_log(sums[i] / count));
  }
}

}  // namespace molspec
