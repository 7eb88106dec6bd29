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

// Writes to `found` the symbols behind a context, each once, those that the longest known context
// lists first; returns how many. Stops where all that are left have less than `floor` together, so
// that the sum may be less than 1, but never more. At most the last order - 1 symbols of the
// context are read. `found` has room for the alphabet, `path` for kMaxOrder contexts. A team
// (guess_rules.h) finds children, adds continuations and knows what a
// context backs off with; it is asked for contexts from the longest on, each of these once.
template <typename Team>
MOLSPEC_ANYWHERE int ngram_lookup(const Team& team, const NgramTable& table, const int32_t* context,
                                  int context_length, float floor, uint32_t* path,
                                  SymbolProbability* found) {
  const int longest = context_length < table.order - 1 ? context_length : table.order - 1;
  int depth = 0;
  uint32_t node = 0;
  if (team.leads()) path[0] = 0;
  while (depth < longest) {
    node = team.child(table, node, context[context_length - 1 - depth]);
    if (node == table.context_count) break;
    ++depth;
    if (team.leads()) path[depth] = node;
  }
  team.begin_lookup(table);
  team.sync();
  int count = 0;
  float weight = 1.0F;
  float left = 1.0F;
  for (; depth >= 0 && left >= floor; --depth) {
    node = path[depth];
    const int first = count;
    count = team.add_continuations(table, node, weight, found, count);
    for (int i = first; i < count; ++i) left -= found[i].probability;
    weight *= team.back_off(table, node);
  }
  return count;
}

}  // namespace molspec
