// The order of candidates in every beam: by score, then by the rank of the hypothesis they extend,
// then by token id. No two candidates of a search are equal, so every selection is unique; SBS
// orders those that may be equal further.

#pragma once

#include <algorithm>
#include <cstdint>

#include "common/anywhere.h"

namespace molspec {

struct RankedCandidate {
  double score;
  int32_t parent_rank;
  int32_t token_id;
};

MOLSPEC_ANYWHERE inline bool better(const RankedCandidate& left, const RankedCandidate& right) {
  if (left.score != right.score) return left.score > right.score;
  if (left.parent_rank != right.parent_rank) return left.parent_rank < right.parent_rank;
  return left.token_id < right.token_id;
}

// The order of tokens by the model's, or by guessed, log-probs.
inline constexpr auto likelier = [](const auto& left, const auto& right) {
  return left.log_prob != right.log_prob ? left.log_prob > right.log_prob
                                         : left.token_id < right.token_id;
};

// Reduces a list to its `count` best items, best first.
template <typename Items, typename Order>
void keep_best(Items& items, int64_t count, Order order) {
  const auto end = items.begin() + std::min(count, static_cast<int64_t>(items.size()));
  std::partial_sort(items.begin(), end, items.end(), order);
  items.erase(end, items.end());
}

}  // namespace molspec
