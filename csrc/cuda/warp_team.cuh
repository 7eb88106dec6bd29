// The team of drafting/guess_rules.h that is a warp: lanes stride over bytes, positions and
// children.

#pragma once

#include "cuda/warp.cuh"
#include "drafting/guess_rows.h"

namespace molspec::cuda {

// What a lookup needs of a context once its children have been searched.
struct ContextRange {
  uint32_t first_continuation, behind_continuations;
  float back_off;
};

struct WarpTeam {
  bool* seen;            // [alphabet], shared: symbols that the running lookup has found
  ContextRange* ranges;  // [kMaxOrder], shared: of the contexts on the running lookup's path

  __device__ WarpTeam(bool* found, ContextRange* path) : seen(found), ranges(path) {}

  __device__ bool leads() const { return lane_index() == 0; }
  __device__ void sync() const { __syncwarp(); }

  __device__ void extend_matches(const uint8_t* parent, const uint8_t* codes, uint8_t code,
                                 uint8_t* child, int32_t size) const {
    if (leads()) child[0] = 0;
    for (int32_t p = lane_index(); p + 1 < size; p += kWarp) {
      const uint8_t before = parent[p];
      child[p + 1] = codes[p] == code ? static_cast<uint8_t>(before + (before != 255)) : uint8_t{0};
    }
  }

  __device__ void copy(const uint8_t* from, uint8_t* to, int32_t size) const {
    for (int32_t i = lane_index(); i < size; i += kWarp) to[i] = from[i];
  }

  __device__ int32_t best_copy(const GuessRules& rules, const GuessStateView& state,
                               int best) const {
    int32_t found = INT32_MAX;
    for (int32_t p = lane_index(); p < rules.text.size; p += kWarp) {
      if (kUnit * state.match_lengths[p] <= best) continue;
      const int score = rules.copy_score(state, p);
      if (score <= best) continue;
      best = score;
      found = p;
    }
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const int other = __shfl_xor_sync(~0U, best, distance);
      const int32_t at = __shfl_xor_sync(~0U, found, distance);
      if (other < best || (other == best && at >= found)) continue;
      best = other;
      found = at;
    }
    return found == INT32_MAX ? -1 : found;
  }

  __device__ int find(const SymbolProbability* found, int count, int32_t symbol) const {
    for (int begin = 0; begin < count; begin += kWarp) {
      const int i = begin + lane_index();
      const unsigned is = __ballot_sync(~0U, i < count && found[i].symbol == symbol);
      if (is) return begin + __ffs(static_cast<int>(is)) - 1;
    }
    return -1;
  }

  // A search whose every step cuts what is left into 32 parts: what a step reads depends on the
  // step before. The last one reads, with the symbols, all that is asked for of the child that it
  // finds: its own children need no look at it first.
  __device__ uint32_t child(const NgramTable& table, uint32_t context, int32_t symbol) const {
    if (context == 0) start(table);
    uint32_t begin = first_child, end = behind_children;
    while (end - begin > kWarp) {
      const uint32_t part = (end - begin + kWarp - 1) / kWarp;
      const uint32_t at = begin + lane_index() * part;
      const bool reached = at < end && table.context_symbols[at] <= symbol;
      const int parts = __popc(__ballot_sync(~0U, reached));
      if (parts == 0) return table.context_count;
      begin += (parts - 1) * part;
      end = min(begin + part, end);
    }
    const uint32_t at = min(begin + lane_index(), table.context_count - 1);
    const NgramContext own = table.contexts[at], next = table.contexts[at + 1];
    const bool found = table.context_symbols[at] == symbol && begin + lane_index() < end;
    const unsigned is = __ballot_sync(~0U, found);
    if (!is) return table.context_count;
    const int from = __ffs(static_cast<int>(is)) - 1;
    first_child = __shfl_sync(~0U, own.first_child, from);
    behind_children = __shfl_sync(~0U, next.first_child, from);
    if (lane_index() == from)
      ranges[depth + 1] = {own.first_continuation, next.first_continuation, own.back_off};
    ++depth;
    return begin + from;
  }

  // At the context of no symbols, which all others back off to.
  __device__ void start(const NgramTable& table) const {
    const NgramContext own = table.contexts[0], next = table.contexts[1];
    first_child = own.first_child;
    behind_children = next.first_child;
    if (leads()) ranges[0] = {own.first_continuation, next.first_continuation, own.back_off};
    depth = 0;
  }

  __device__ void begin_lookup(const NgramTable& table) const {
    if (depth < 0) start(table);
    for (int32_t i = lane_index(); i < table.alphabet_size; i += kWarp) seen[i] = false;
  }

  // Behind it the lookup goes on at the next shorter context.
  __device__ float back_off(const NgramTable&, uint32_t) const { return ranges[depth--].back_off; }

  __device__ int add_continuations(const NgramTable& table, uint32_t, float weight,
                                   SymbolProbability* found, int count) const {
    const uint32_t end = ranges[depth].behind_continuations;
    for (uint32_t begin = ranges[depth].first_continuation; begin < end; begin += kWarp) {
      const uint32_t at = begin + lane_index();
      const NgramContinuation entry = at < end ? table.continuations[at] : NgramContinuation{};
      const bool fresh = at < end && !seen[entry.symbol];
      const unsigned all = __ballot_sync(~0U, fresh);
      if (fresh) {
        const int before = __popc(all & ((1U << lane_index()) - 1));
        found[count + before] = {entry.symbol, weight * table.probabilities[entry.code]};
        seen[entry.symbol] = true;
      }
      count += __popc(all);
    }
    sync();
    return count;
  }

 private:
  // Of the running lookup, the same in all lanes: the children of the context it has come to, and
  // how many symbols that has; -1 where the next lookup begins anew.
  mutable uint32_t first_child = 0, behind_children = 0;
  mutable int depth = -1;
};

}  // namespace molspec::cuda
