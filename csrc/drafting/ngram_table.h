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

// The contexts of a model in a hash table, for a device. A walk down the trie needs a load for each
// symbol, each after the one before; this table needs one load for all lengths of context.
//
// The hash of a context's symbols, newest first: its bucket, and the tag that is compared there.
struct ContextHash {
  uint32_t bucket, tag;

  MOLSPEC_ANYWHERE void add(int32_t symbol) {
    bucket = mixed((bucket ^ static_cast<uint32_t>(symbol)) * 0x9E3779B1U);
    tag = mixed((tag + static_cast<uint32_t>(symbol)) * 0x85EBCA6BU);
  }

 private:
  MOLSPEC_ANYWHERE static uint32_t mixed(uint32_t value) { return value ^ value >> 15; }
};

struct alignas(8) ContextEntry {
  uint32_t tag, context;  // context 0, which has no symbols, marks an empty entry
};

// A context is in the first bucket from its own on that had room. Two contexts whose searches read
// the same bucket have different tags.
struct ContextIndex {
  static constexpr uint32_t kBucket = 4;

  const ContextEntry* entries;  // [bucket_count, kBucket]
  const uint32_t* parents;      // [context_count]: the context without the oldest symbol
  uint32_t bucket_count;        // a power of two, more than there are contexts: some are empty
  uint32_t seed;

  MOLSPEC_ANYWHERE ContextHash begin() const { return {seed, ~seed}; }

  // The context with this hash, or 0.
  MOLSPEC_ANYWHERE uint32_t find(const ContextHash& hash) const {
    for (uint32_t bucket = hash.bucket;; ++bucket) {
      const ContextEntry* at = entries + (bucket & (bucket_count - 1)) * kBucket;
      const ContextEntry all[kBucket] = {at[0], at[1], at[2], at[3]};
      for (const ContextEntry& entry : all)
        if (entry.context == 0 || entry.tag == hash.tag) return entry.context;
    }
  }
};

}  // namespace molspec
