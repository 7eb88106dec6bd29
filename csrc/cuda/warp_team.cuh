// The team of drafting/guess_rules.h that is a warp: lanes stride over bytes, positions and
// children.

#pragma once

#include "cuda/warp.cuh"
#include "drafting/guess_rows.h"

namespace molspec::cuda {

struct WarpTeam {
  bool* seen;  // [alphabet], shared: symbols that the running lookup has found

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
  // step before.
  __device__ uint32_t child(const NgramTable& table, uint32_t context, int32_t symbol) const {
    uint32_t begin = table.contexts[context].first_child;
    uint32_t end = table.contexts[context + 1].first_child;
    while (end - begin > kWarp) {
      const uint32_t part = (end - begin + kWarp - 1) / kWarp;
      const uint32_t at = begin + lane_index() * part;
      const bool reached = at < end && table.context_symbols[at] <= symbol;
      const int parts = __popc(__ballot_sync(~0U, reached));
      if (parts == 0) return table.context_count;
      begin += (parts - 1) * part;
      end = min(begin + part, end);
    }
    const uint32_t at = begin + lane_index();
    const unsigned is = __ballot_sync(~0U, at < end && table.context_symbols[at] == symbol);
    return is ? begin + __ffs(static_cast<int>(is)) - 1 : table.context_count;
  }

  __device__ void begin_lookup(const NgramTable& table) const {
    for (int32_t i = lane_index(); i < table.alphabet_size; i += kWarp) seen[i] = false;
  }

  __device__ int add_continuations(const NgramTable& table, uint32_t context, float weight,
                                   SymbolProbability* found, int count) const {
    const uint32_t end = table.contexts[context + 1].first_continuation;
    for (uint32_t begin = table.contexts[context].first_continuation; begin < end; begin += kWarp) {
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
};

}  // namespace molspec::cuda
