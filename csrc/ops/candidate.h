// The order of candidates in a beam, wherever one is kept: by score, then by the rank of the
// hypothesis they extend, then by token id. No two candidates of a query are equal, so every
// selection is the only one.

#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/anywhere.h"

namespace molspec {

struct RankedCandidate {
  double score;
  int32_t parent_rank;
  int32_t token_id;
};

inline MOLSPEC_ANYWHERE bool better(const RankedCandidate& left, const RankedCandidate& right) {
  if (left.score != right.score) return left.score > right.score;
  if (left.parent_rank != right.parent_rank) return left.parent_rank < right.parent_rank;
  return left.token_id < right.token_id;
}

// Puts the `count` best of [begin, end) first, best first; returns the end of them.
template <typename Iterator, typename Order>
Iterator select_best(Iterator begin, Iterator end, int64_t count, Order order) {
  const Iterator middle = begin + std::min<int64_t>(count, end - begin);
  std::partial_sort(begin, middle, end, order);
  return middle;
}

}  // namespace molspec
