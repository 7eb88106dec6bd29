// The team (guess_rules.h) that is the calling thread.

#pragma once

#include <algorithm>
#include <vector>

#include "drafting/guess_rules.h"

namespace molspec {

// The result of a lookup, and its scratch memory.
struct NgramLookup {
  std::vector<SymbolProbability> found;  // [alphabet]

  // Writes the symbols after a context to `found`, each once, those of the longest known context
  // first; returns how many. Stops when the remaining ones have less than `floor` together, so the
  // sum may be below 1, but never above. Reads at most the last order - 1 symbols of the context.
  int find(const NgramTable& table, const int32_t* context, int context_length, float floor) {
    begin(table);
    const int longest = std::min(context_length, table.order - 1);
    int depth = 0;
    path_[0] = 0;
    while (depth < longest) {
      const uint32_t node = child(table, path_[depth], context[context_length - 1 - depth]);
      if (node == table.context_count) break;
      path_[++depth] = node;
    }
    int count = 0;
    float weight = 1.0F;
    float left = 1.0F;
    for (; depth >= 0 && left >= floor; --depth) {
      const int first = count;
      count = add_continuations(table, path_[depth], weight, count);
      for (int i = first; i < count; ++i) left -= found[i].probability;
      weight *= table.contexts[path_[depth]].back_off;
    }
    return count;
  }

 private:
  void begin(const NgramTable& table) {
    const auto size = static_cast<size_t>(table.alphabet_size);
    if (stamps_.size() != size) {
      found.resize(size);
      stamps_.assign(size, 0);
      stamp_ = 0;
    }
    if (++stamp_ != 0) return;
    std::fill(stamps_.begin(), stamps_.end(), 0);
    stamp_ = 1;
  }

  // The context with one symbol more, or context_count.
  static uint32_t child(const NgramTable& table, uint32_t context, int32_t symbol) {
    const uint16_t* begin = table.context_symbols + table.contexts[context].first_child;
    const uint16_t* end = table.context_symbols + table.contexts[context + 1].first_child;
    const uint16_t* at = std::lower_bound(begin, end, symbol);
    return at == end || *at != symbol ? table.context_count
                                      : static_cast<uint32_t>(at - table.context_symbols);
  }

  int add_continuations(const NgramTable& table, uint32_t context, float weight, int count) {
    const uint32_t stamp = stamp_;
    uint32_t* stamps = stamps_.data();
    SymbolProbability* to = found.data();
    for (uint32_t i = table.contexts[context].first_continuation;
         i < table.contexts[context + 1].first_continuation; ++i) {
      const NgramContinuation continuation = table.continuations[i];
      if (stamps[continuation.symbol] == stamp) continue;
      stamps[continuation.symbol] = stamp;
      to[count++] = {continuation.symbol, weight * table.probabilities[continuation.code]};
    }
    return count;
  }

  std::vector<uint32_t> stamps_;  // [alphabet]: the lookup that found a symbol last
  uint32_t stamp_ = 0;
  uint32_t path_[NgramTable::kMaxOrder];
};

struct HostTeam {
  NgramLookup& lookup;

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

  // Skips blocks of positions in which none matches enough, in few vector instructions.
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

  int find(int count, int32_t symbol) const {
    for (int i = 0; i < count; ++i)
      if (found()[i].symbol == symbol) return i;
    return -1;
  }

  int look_up(const NgramTable& table, const int32_t* context, float floor) const {
    return lookup.find(table, context, kGuessContext, floor);
  }
  SymbolProbability* found() const { return lookup.found.data(); }

 private:
  static int longest(const uint8_t* matches, int32_t count) {
    uint8_t result = 0;
    for (int32_t i = 0; i < count; ++i) result = std::max(result, matches[i]);
    return result;
  }
};

}  // namespace molspec
