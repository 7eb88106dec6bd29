// Small run-time numbers as template arguments. Included only by kernel_table.cpp, hence no std
// types.

#pragma once

namespace {

template <int kValue>
struct Constant {
  static constexpr int value = kValue;
};

// Calls function(Constant<n>) for n in 1 .. kMost; a larger n counts as kMost.
template <int kMost, typename Function>
inline void with_constant(int n, const Function& function) {
  if constexpr (kMost > 1) {
    if (n < kMost) return with_constant<kMost - 1>(n, function);
  }
  function(Constant<kMost>{});
}

// Cuts `count` into tiles of at most kMost, as even as possible (8 with at most 6 are 4 + 4), and
// calls function(first, Constant<size>) for each.
template <int kMost, typename Function>
inline void in_tiles(int count, const Function& function) {
  const int tiles = (count + kMost - 1) / kMost;
  for (int tile = 0, first = 0; tile < tiles; ++tile) {
    const int size = (count - first + tiles - tile - 1) / (tiles - tile);
    with_constant<kMost>(size, [&](auto constant) { function(first, constant); });
    first += size;
  }
}

}  // namespace
