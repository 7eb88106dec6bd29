// The mean of the probabilities that several models give the same tokens.

#pragma once

#include <cstdint>
#include <vector>

namespace molspec {

// Replaces the log-probs of the first part by the logs of the arithmetic means over all parts,
// entry by entry. Parts are added in their order, in double; equal ones give their own bits. An
// entry that is not a number in a part is none in the mean.
void average_log_probs(float* first, const std::vector<const float*>& others, int64_t size);

}  // namespace molspec
