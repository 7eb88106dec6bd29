// The order of candidates in a beam, wherever one is kept: by score, then by the rank of the
// hypothesis they extend, then by token id. No two candidates of a search are equal, so every
// selection is the only one.

#pragma once

#include <algorithm>
#include <cstdint>

#include "common/anywhere.h"

namespace molspec {

template <typename Id>
struct Ranked {
  double score;
  Id parent_rank;
  Id token_id;
};
using RankedCandidate = Ranked<int32_t>;

template <typename Id>
MOLSPEC_ANYWHERE bool better(const Ranked<Id>& left, const Ranked<Id>& right) {
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
