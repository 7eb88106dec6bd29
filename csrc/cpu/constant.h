// A small run-time number as a template argument. Included only by kernels.inl, hence no std types.

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

}  // namespace
