// A back-off n-gram model (ngram.h) over flat arrays, which the host and a device share.

#pragma once

#include <cstdint>

#include "common/anywhere.h"

namespace molspec {

struct SymbolProbability {
  int32_t symbol;
  float probability;
};

struct NgramContext {  // children and continuations end where the next context's begin
  uint32_t first_child;
  uint32_t first_continuation;
  float back_off;
};

struct NgramContinuation {
  uint16_t symbol;
  uint8_t code;
};

struct NgramTable {
  static constexpr int kMaxOrder = 16;

  const NgramContext* contexts;     // [context_count + 1]
  const uint16_t* context_symbols;  // [context_count]
  const NgramContinuation* continuations;
  const float* probabilities;  // [256], by code
  uint32_t context_count;
  int32_t order, alphabet_size;
};

}  // namespace molspec
