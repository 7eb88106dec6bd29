#include "text/ring_symbols.h"

namespace molspec {

RingSymbols::RingSymbols(const TokenRoles& roles) : special_(roles.special()) {
  for (int32_t token = 0; token < roles.vocab_size(); ++token) {
    kinds_.push_back(roles.kind(token));
    ring_numbers_.push_back(static_cast<int8_t>(roles.ring_number(token)));
  }
  for (int number = 0; number < SymbolTable::kRingNumbers; ++number)
    ring_tokens_.push_back(roles.ring_token(number).value_or(SymbolTable::kNoToken));
}

}  // namespace molspec
