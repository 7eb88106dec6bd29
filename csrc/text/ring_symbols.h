// Ring-closure digits by what they do instead of by their number.
//
// "c1ccccc1" and "c2ccccc2" are the same text to a chemist. A *symbol* is a token, but a digit is
// written as "opens a ring with the lowest free number" or "closes the r-th youngest open ring".
// Given the rings that are open, token and symbol determine one another.

#pragma once

#include <cstdint>
#include <vector>

#include "text/token_roles.h"

namespace molspec {

class RingSymbols {
 public:
  explicit RingSymbols(const TokenRoles& roles);

  SymbolTable table() const {
    return {kinds_.data(), ring_numbers_.data(), ring_tokens_.data(),
            static_cast<int32_t>(kinds_.size()), special_};
  }
  int alphabet_size() const { return table().alphabet_size(); }
  int32_t open_symbol() const { return table().open_symbol(); }
  int32_t close_symbol(int rank) const { return table().close_symbol(rank); }
  int32_t symbol(int32_t token, const OpenRings& rings) const {
    return table().symbol(token, rings);
  }
  void advance(int32_t token, OpenRings& rings) const { table().advance(token, rings); }

 private:
  SpecialIds special_;
  std::vector<TokenKind> kinds_;
  std::vector<int8_t> ring_numbers_;
  std::vector<int32_t> ring_tokens_;
};

}  // namespace molspec
