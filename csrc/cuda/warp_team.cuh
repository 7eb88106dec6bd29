// The team of drafting/guess_rules.h that is a warp: lanes stride over words of bytes and over
// contexts.

#pragma once

#include <cstddef>

#include "cuda/warp.cuh"
#include "drafting/guess_rows.h"

namespace molspec::cuda {

// A warp's scratch memory for guesses; `found` may end after the alphabet's size.
struct GuessShared {
  int32_t context[16];
  uint32_t seen[kMostNgramSymbols / 32];       // a bit for each symbol that the lookup has found
  int32_t levels[kWarp];                       // of the symbols that a turn of the lookup finds
  SymbolProbability found[kMostNgramSymbols];  // symbols, then tokens as `weigh` leaves them

  __device__ static int64_t size(int32_t alphabet) {
    return static_cast<int64_t>(offsetof(GuessShared, found)) +
           alphabet * static_cast<int64_t>(sizeof(SymbolProbability));
  }
};
static_assert(kGuessContext <= 16 && NgramTable::kMaxOrder <= kWarp / 2);

struct WarpTeam {
  GuessShared& shared;

  __device__ bool leads() const { return lane_index() == 0; }
  __device__ void sync() const { __syncwarp(); }

  // Four positions a word; a lane loads kTogether words before it writes one, since a child may be
  // its own parent. Rows are aligned to words and padded to whole ones.
  __device__ void extend_matches(const uint8_t* parent, const uint8_t* codes, uint8_t code,
                                 uint8_t* child, int32_t size) const {
    constexpr int kTogether = 4;
    const auto* from = reinterpret_cast<const uint32_t*>(parent);
    const auto* text = reinterpret_cast<const uint32_t*>(codes);
    auto* to = reinterpret_cast<uint32_t*>(child);
    const int32_t words = (size + 3) / 4;
    const uint32_t same = code * 0x01010101U;
    for (int32_t end = words; end > 0; end -= kTogether * kWarp) {
      uint32_t next[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int32_t at = max(end - 1 - i * kWarp - lane_index(), 0), before = max(at - 1, 0);
        // For every position, the value at the one before it.
        const uint32_t matches = __funnelshift_l(from[before], from[at], 8);
        const uint32_t symbols = __funnelshift_l(text[before], text[at], 8);
        next[i] = __vcmpeq4(symbols, same) & __vaddus4(matches, 0x01010101U);
        if (at == 0) next[i] &= ~0xFFU;
      }
      sync();
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int32_t at = end - 1 - i * kWarp - lane_index();
        if (at >= 0) to[at] = next[i];
      }
    }
  }

  __device__ void copy(const uint8_t* from, uint8_t* to, int32_t size) const {
    if (from == to) return;
    copy_words(reinterpret_cast<const uint32_t*>(from), reinterpret_cast<uint32_t*>(to),
               (size + 3) / 4);
  }

  // Few positions match enough: four are tested at a time, and matching ones scored one by one.
  __device__ int32_t best_copy(const GuessRules& rules, const GuessStateView& state,
                               int best) const {
    constexpr int kTogether = 4, kMostWords = 32;  // of a lane: a bit each
    constexpr int kPositions = 20;                 // bits of a position
    const auto* matches = reinterpret_cast<const uint32_t*>(state.match_lengths);
    const int32_t size = rules.text.size, words = (size + 3) / 4;
    // If the best score is negative, even a position without a match may be better.
    const uint32_t enough = best < 0 ? 0 : (best / kUnit + 1) * 0x01010101U;
    uint32_t found = 0;
    for (int32_t base = lane_index(); base < words; base += kMostWords * kWarp) {
      uint32_t some = 0;
      for (int i = 0; i < kMostWords && base + i * kWarp < words; i += kTogether) {
        uint32_t four[kTogether];
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
          four[j] = matches[min(base + (i + j) * kWarp, words - 1)];
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
          some |= (__vcmpgeu4(four[j], enough) != 0 ? 1U : 0U) << (i + j);
      }
      for (; some != 0; some &= some - 1) {
        const int32_t word = base + (__ffs(static_cast<int>(some)) - 1) * kWarp;
        if (word >= words) break;
        uint32_t left = __vcmpgeu4(matches[word], enough) & 0x01010101U;  // a bit a position
        for (; left != 0; left &= left - 1) {
          const int32_t position = 4 * word + (__ffs(static_cast<int>(left)) - 1) / 8;
          if (position >= size) break;
          const int score = rules.copy_score(state, position);
          if (score <= best) continue;
          found = max(found, static_cast<uint32_t>(score + 256) << kPositions |
                                 ((1U << kPositions) - 1 - position));
        }
      }
    }
    found = __reduce_max_sync(~0U, found);
    constexpr uint32_t kLast = (1U << kPositions) - 1;
    return found == 0 ? -1 : static_cast<int32_t>(kLast - (found & kLast));
  }

  __device__ int find(int count, int32_t symbol) const {
    for (int begin = 0; begin < count; begin += kWarp) {
      const int i = begin + lane_index();
      const unsigned is = __ballot_sync(~0U, i < count && shared.found[i].symbol == symbol);
      if (is) return begin + __ffs(static_cast<int>(is)) - 1;
    }
    return -1;
  }

  __device__ SymbolProbability* found() const { return shared.found; }

  // Lane d looks up the context of the newest d symbols: all contexts are loaded together, then
  // their continuations, those of the longest known context first. Sums have the host's order.
  __device__ int look_up(const IndexedNgram& ngram, const int32_t* context, float floor) const {
    const NgramTable& table = ngram.table;
    const int lane = lane_index(), longest = min(kGuessContext, table.order - 1);
    ContextHash hash = ngram.index.begin(), mine = hash;
    for (int d = 1; d <= longest; ++d) {
      hash.add(context[kGuessContext - d]);
      if (d == lane) mine = hash;
    }
    const bool looks_up = lane >= 1 && lane <= longest;
    const uint32_t node = looks_up ? ngram.index.find(mine) : 0;
    const NgramContext own = table.contexts[node], next = table.contexts[node + 1];
    const uint32_t shorter = __shfl_sync(~0U, node, max(lane - 1, 0));
    const bool is = looks_up && node != 0 && ngram.index.parents[node] == shorter &&
                    table.context_symbols[node] == context[kGuessContext - lane];
    const int depth = __ffs(static_cast<int>(~__ballot_sync(~0U, is || lane == 0))) - 2;
    const auto length = static_cast<int>(next.first_continuation - own.first_continuation);
    // The continuations of all contexts as one row, and each context's weight.
    Levels levels{own.first_continuation, 0, 1.0f};
    int total = 0;
    for (int d = depth; d >= 0; --d) {
      const int of_d = __shfl_sync(~0U, length, d);
      const float back_off = __shfl_sync(~0U, own.back_off, d);
      total += of_d;
      if (lane >= d) continue;
      levels.begin += of_d;
      levels.weight *= back_off;
    }
    for (int i = lane; i < (table.alphabet_size + 31) / 32; i += kWarp) shared.seen[i] = 0;
    sync();
    Found result{0, 1.0f, depth};
    for (int begin = 0; begin < total && result.level >= 0; begin += kWarp)
      add_continuations(table, levels, depth, begin, min(total - begin, kWarp), floor, result);
    return result.count;
  }

 private:
  // The context of a lane.
  struct Levels {
    uint32_t first;  // of its continuations
    int begin;       // of them in the row of all
    float weight;
  };
  struct Found {
    int count;
    float left;
    int level;  // of the last symbol; -1: the remaining probability is too small
  };

  // Entries [begin, begin + count) of the row.
  __device__ void add_continuations(const NgramTable& table, const Levels& levels, int depth,
                                    int begin, int count, float floor, Found& result) const {
    const int lane = lane_index();
    uint32_t at = 0;
    float weight = 0;
    int level = 0;
    for (int d = depth; d >= 0; --d) {
      const int from = __shfl_sync(~0U, levels.begin, d);
      const uint32_t first = __shfl_sync(~0U, levels.first, d);
      const float of_d = __shfl_sync(~0U, levels.weight, d);
      if (begin + lane < from) continue;
      at = first + static_cast<uint32_t>(begin + lane - from);
      weight = of_d;
      level = d;
    }
    const bool is = lane < count;
    const NgramContinuation entry = table.continuations[is ? at : 0];
    const float probability = weight * table.probabilities[entry.code];
    // The first of equal symbols counts. Lanes without an entry have symbols of their own.
    const unsigned equal = __match_any_sync(~0U, is ? entry.symbol : ~static_cast<unsigned>(lane));
    const uint32_t bit = 1U << entry.symbol % 32;
    const bool known = (shared.seen[entry.symbol / 32] & bit) != 0;
    sync();
    const bool fresh = is && !known && (equal & ((1U << lane) - 1)) == 0;
    const unsigned all = __ballot_sync(~0U, fresh);
    const int index = __popc(all & ((1U << lane) - 1)), added = __popc(all);
    if (added == 0) return;
    if (fresh) {
      atomicOr(&shared.seen[entry.symbol / 32], bit);
      shared.found[result.count + index] = {entry.symbol, probability};
      shared.levels[index] = level;
    }
    sync();
    const int own_level = shared.levels[min(lane, added - 1)];
    const float own = lane < added ? shared.found[result.count + lane].probability : 0;
    float before = 0;  // the remaining probability before
    for (int i = 0; i < added; ++i) {
      if (i == lane) before = result.left;
      result.left -= __shfl_sync(~0U, own, i);
    }
    const int previous = __shfl_sync(~0U, own_level, max(lane - 1, 0));
    const bool begins = own_level != (lane == 0 ? result.level : previous);
    const unsigned ends = __ballot_sync(~0U, lane < added && begins && before < floor);
    result.count += ends ? __ffs(static_cast<int>(ends)) - 1 : added;
    result.level = ends ? -1 : __shfl_sync(~0U, own_level, added - 1);
    sync();
  }
};

}  // namespace molspec::cuda
