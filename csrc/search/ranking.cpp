#include "search/ranking.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace molspec {

double length_norm(int32_t length, double length_penalty) {
  return std::pow(length, length_penalty);
}

double beam_score(double log_prob, int32_t length, double length_penalty) {
  return length_penalty == 0 ? log_prob : log_prob / length_norm(length, length_penalty);
}

namespace {

constexpr int32_t kNoRank = std::numeric_limits<int32_t>::min();
constexpr int32_t kGroup = 16;

// An integer that orders log-probs: greater for a greater one; the minimum for NaN.
int32_t rank_of(float log_prob) {
  const float value = log_prob + 0.0F;  // -0 is 0
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return std::isnan(log_prob) ? kNoRank : bits ^ ((bits >> 31) & 0x7fffffff);
}

int32_t greatest(const int32_t* group) {
  int32_t most = group[0];
  for (int32_t i = 1; i < kGroup; ++i) most = std::max(most, group[i]);
  return most;
}

// The first index of a rank in a group.
int32_t index_of(int32_t rank, const int32_t* group) {
  int32_t first = kGroup;
  for (int32_t i = 0; i < kGroup; ++i) first = std::min(first, group[i] == rank ? i : kGroup);
  return first;
}

}  // namespace

// Keeps the maximum of each group of tokens, and finds the first greatest one. No branch depends on
// a log-prob: an insertion into a sorted list would cost two mispredicted branches.
void best_tokens(const float* log_probs, int32_t vocab_size, int32_t count,
                 std::vector<Candidate>& out) {
  out.clear();
  if (std::isnan(log_probs[0])) return;
  const int32_t group_count = (vocab_size + kGroup - 1) / kGroup;
  const int32_t row_count = (group_count + kGroup - 1) / kGroup;  // of groups' maxima
  thread_local std::vector<int32_t> scratch;
  scratch.assign(static_cast<size_t>(group_count + row_count) * kGroup, kNoRank);
  int32_t* ranks = scratch.data();
  int32_t* greatest_of = ranks + group_count * kGroup;
  for (int32_t token = 0; token < vocab_size; ++token) ranks[token] = rank_of(log_probs[token]);
  const auto look_at = [&](int32_t group) {
    greatest_of[group] = greatest(ranks + group * kGroup);
  };
  for (int32_t group = 0; group < group_count; ++group) look_at(group);
  for (int32_t i = 0; i < count; ++i) {
    int32_t best = kNoRank, group = 0;
    for (int32_t row = 0; row < row_count; ++row) {
      const int32_t* its = greatest_of + row * kGroup;
      const int32_t most = greatest(its);
      if (most > best) best = most, group = row * kGroup;
    }
    if (best == kNoRank) break;
    group += index_of(best, greatest_of + group);
    const int32_t token = group * kGroup + index_of(best, ranks + group * kGroup);
    out.push_back({token, log_probs[token]});
    ranks[token] = kNoRank;
    look_at(group);
  }
  if (!out.empty() && !std::isfinite(out.front().log_prob)) out.clear();
}

}  // namespace molspec
