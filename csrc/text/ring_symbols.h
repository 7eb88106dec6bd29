// Ring-closure digits by what they do instead of by their number.
//
// "c1ccccc1" and "c2ccccc2" are the same text to a chemist. A *symbol* is a token, but a digit is
// written as "opens a ring with the lowest free number" or "closes the r-th youngest open ring".
// Given the rings that are open, token and symbol determine one another.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "text/token_roles.h"

namespace molspec {

// Numbers of the rings that are open, oldest first. Rings beyond the capacity are not followed.
struct OpenRings {
  static constexpr int kCapacity = 16;
  std::array<uint8_t, kCapacity> numbers;
  int count = 0;
};

class RingSymbols {
 public:
  explicit RingSymbols(const TokenRoles& roles);

  // Tokens keep their ids; behind them come "open" and "close the r-th youngest", r = 0, 1, ...
  int alphabet_size() const { return open_symbol() + 1 + OpenRings::kCapacity; }
  int32_t open_symbol() const { return vocab_size_; }
  int32_t close_symbol(int rank) const { return vocab_size_ + 1 + rank; }

  int32_t symbol(int32_t token, const OpenRings& rings) const;
  // None where the symbol has no token here: no such ring is open, no such number in the
  // vocabulary.
  std::optional<int32_t> token(int32_t symbol, const OpenRings& rings) const;
  // Opens or closes the ring of a token; other tokens change nothing.
  void advance(int32_t token, OpenRings& rings) const;

 private:
  int vocab_size_;
  std::vector<int8_t> ring_numbers_;
  std::array<int32_t, TokenRoles::kRingNumbers> ring_tokens_;
};

}  // namespace molspec
