// The team (guess_rules.h) that is the calling thread.

#pragma once

#include <algorithm>
#include <vector>

#include "drafting/guess_rules.h"

namespace molspec {

// What a lookup finds, and its scratch memory.
struct NgramLookup {
  std::vector<SymbolProbability> found;  // [alphabet]
  std::vector<uint32_t> stamps;          // [alphabet]: the lookup that found a symbol last
  uint32_t stamp = 0;
  uint32_t path[NgramTable::kMaxOrder];

  void fit(const NgramTable& table) {
    const auto size = static_cast<size_t>(table.alphabet_size);
    if (stamps.size() == size) return;
    found.resize(size);
    stamps.assign(size, 0);
    stamp = 0;
  }
};

class HostTeam {
 public:
  explicit HostTeam(NgramLookup& lookup) : lookup_(lookup) {}

  static constexpr bool leads() { return true; }
  void sync() const {}

  void extend_matches(const uint8_t* parent, const uint8_t* text, uint8_t code, uint8_t* child,
                      int32_t size) const {
    const uint8_t* __restrict codes = text;
    const uint8_t* __restrict before = parent;
    uint8_t* __restrict after = child;
    const auto last = static_cast<size_t>(size) - 1;
    after[0] = 0;
    for (size_t p = 0; p < last; ++p) {
      const auto longer = static_cast<uint8_t>(before[p] + (before[p] != 255));
      after[p + 1] = codes[p] == code ? longer : uint8_t{0};
    }
  }

  void copy(const uint8_t* from, uint8_t* to, int32_t size) const { std::copy_n(from, size, to); }

  // Positions are passed over at once, in few vector instructions, where none matches enough.
  int32_t best_copy(const GuessRules& rules, const GuessStateView& state, int best) const {
    constexpr int32_t kBlock = 64;
    const uint8_t* matches = state.match_lengths;
    int32_t found = -1;
    for (int32_t begin = 0; begin < rules.text.size; begin += kBlock) {
      const int32_t end = std::min(begin + kBlock, rules.text.size);
      if (kUnit * longest(matches + begin, end - begin) <= best) continue;
      for (int32_t position = begin; position < end; ++position) {
        if (kUnit * matches[position] <= best) continue;
        const int score = rules.copy_score(state, position);
        if (score <= best) continue;
        best = score;
        found = position;
      }
    }
    return found;
  }

  int find(const SymbolProbability* found, int count, int32_t symbol) const {
    for (int i = 0; i < count; ++i)
      if (found[i].symbol == symbol) return i;
    return -1;
  }

  uint32_t child(const NgramTable& table, uint32_t context, int32_t symbol) const {
    const uint16_t* begin = table.context_symbols + table.contexts[context].first_child;
    const uint16_t* end = table.context_symbols + table.contexts[context + 1].first_child;
    const uint16_t* at = std::lower_bound(begin, end, symbol);
    return at == end || *at != symbol ? table.context_count
                                      : static_cast<uint32_t>(at - table.context_symbols);
  }

  float back_off(const NgramTable& table, uint32_t context) const {
    return table.contexts[context].back_off;
  }

  void begin_lookup(const NgramTable& table) const {
    lookup_.fit(table);
    if (++lookup_.stamp != 0) return;
    std::fill(lookup_.stamps.begin(), lookup_.stamps.end(), 0);
    lookup_.stamp = 1;
  }

  int add_continuations(const NgramTable& table, uint32_t context, float weight,
                        SymbolProbability* found, int count) const {
    const uint32_t stamp = lookup_.stamp;
    uint32_t* stamps = lookup_.stamps.data();
    for (uint32_t i = table.contexts[context].first_continuation;
         i < table.contexts[context + 1].first_continuation; ++i) {
      const NgramContinuation continuation = table.continuations[i];
      if (stamps[continuation.symbol] == stamp) continue;
      stamps[continuation.symbol] = stamp;
      found[count++] = {continuation.symbol, weight * table.probabilities[continuation.code]};
    }
    return count;
  }

 private:
  static int longest(const uint8_t* matches, int32_t count) {
    uint8_t result = 0;
    for (int32_t i = 0; i < count; ++i) result = std::max(result, matches[i]);
    return result;
  }

  NgramLookup& lookup_;
};

}  // namespace molspec
