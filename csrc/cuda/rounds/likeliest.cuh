// The likeliest tokens of a row of log-probs, by a warp. All lanes must call, and all get the same.

#pragma once

#include "cuda/warp.cuh"

namespace molspec::cuda {

struct LikelyToken {
  static constexpr int32_t kNone = INT32_MAX;

  float log_prob;
  int32_t token_id;  // kNone, which orders last, if no token is left

  // The host's order: the lower id first among equals.
  __device__ bool before(const LikelyToken& other) const {
    return log_prob > other.log_prob || (log_prob == other.log_prob && token_id < other.token_id);
  }
};

// The likeliest token of a row after `previous`. NaN is skipped. A lane loads eight tokens before
// it compares one.
inline __device__ LikelyToken likeliest_after(const LikelyToken& previous, const float* row,
                                              int64_t size) {
  LikelyToken best{-INFINITY, LikelyToken::kNone};
  constexpr int kTogether = 8;
  for (int64_t begin = lane_index(); begin < size; begin += kTogether * kWarp) {
    float log_probs[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) log_probs[i] = row[min(begin + i * kWarp, size - 1)];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const LikelyToken token{log_probs[i], static_cast<int32_t>(begin + i * kWarp)};
      const bool is = begin + i * kWarp < size;
      if (is && previous.before(token) && token.before(best)) best = token;
    }
  }
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const LikelyToken other{__shfl_xor_sync(~0U, best.log_prob, distance),
                            __shfl_xor_sync(~0U, best.token_id, distance)};
    if (other.before(best)) best = other;
  }
  return best;
}

// The first maximum of a row, as std::max_element finds it on the host: if the row begins with NaN,
// that; elsewhere NaN is skipped.
inline __device__ LikelyToken likeliest(const float* row, int64_t size) {
  const LikelyToken best = likeliest_after({INFINITY, -1}, row, size);
  return isnan(row[0]) ? LikelyToken{row[0], 0} : best;
}

}  // namespace molspec::cuda
