#include "text/ring_symbols.h"

#include <algorithm>

namespace molspec {
namespace {

// RDKit numbers rings from 1.
int lowest_free(const OpenRings& rings) {
  for (int number = 1;; ++number) {
    const auto end = rings.numbers.begin() + rings.count;
    if (std::find(rings.numbers.begin(), end, number) == end) return number;
  }
}

int index_of(int number, const OpenRings& rings) {
  for (int index = rings.count - 1; index >= 0; --index) {
    if (rings.numbers[static_cast<size_t>(index)] == number) return index;
  }
  return -1;
}

}  // namespace

RingSymbols::RingSymbols(const TokenRoles& roles) : vocab_size_(roles.vocab_size()) {
  for (int32_t token = 0; token < vocab_size_; ++token) {
    ring_numbers_.push_back(static_cast<int8_t>(roles.ring_number(token)));
  }
  for (int number = 0; number < TokenRoles::kRingNumbers; ++number) {
    ring_tokens_[static_cast<size_t>(number)] = roles.ring_token(number).value_or(-1);
  }
}

int32_t RingSymbols::symbol(int32_t token, const OpenRings& rings) const {
  const int number = ring_numbers_[static_cast<size_t>(token)];
  if (number == TokenRoles::kNotRing) return token;
  const int index = index_of(number, rings);
  if (index >= 0) return close_symbol(rings.count - 1 - index);
  return number == lowest_free(rings) ? open_symbol() : token;
}

std::optional<int32_t> RingSymbols::token(int32_t symbol, const OpenRings& rings) const {
  if (symbol < vocab_size_) return symbol;
  int number = 0;
  if (symbol == open_symbol()) {
    number = lowest_free(rings);
  } else {
    const int index = rings.count - 1 - (symbol - close_symbol(0));
    if (index < 0) return std::nullopt;
    number = rings.numbers[static_cast<size_t>(index)];
  }
  const int32_t token = ring_tokens_[static_cast<size_t>(number)];
  if (token < 0) return std::nullopt;
  return token;
}

void RingSymbols::advance(int32_t token, OpenRings& rings) const {
  const int number = ring_numbers_[static_cast<size_t>(token)];
  if (number == TokenRoles::kNotRing) return;
  const int index = index_of(number, rings);
  if (index >= 0) {
    std::copy(rings.numbers.begin() + index + 1, rings.numbers.begin() + rings.count,
              rings.numbers.begin() + index);
    --rings.count;
  } else if (rings.count < OpenRings::kCapacity) {
    rings.numbers[static_cast<size_t>(rings.count++)] = static_cast<uint8_t>(number);
  }
}

}  // namespace molspec
