// The likeliest tokens behind a path by a guess, by a warp. All lanes must call.

#pragma once

#include "cuda/warp_team.cuh"

namespace molspec::cuda {

struct GuessShared {
  int32_t context[kGuessContext];
  uint32_t path[NgramTable::kMaxOrder];
  SymbolProbability found[kMostNgramSymbols];  // symbols, then tokens
  float lost[kMostNgramSymbols];
  bool seen[kMostNgramSymbols];
};

// What a warp guesses from: the row of the model and that of a query.
struct Guesser {
  GuessRules rules;
  NgramTable ngram;
  GuessShared& shared;
  WarpTeam team;

  // Whether the rows fit what they say they hold: a guess from others would read elsewhere.
  __device__ static bool fits(const uint8_t* tables, const uint8_t* text, int64_t text_stride,
                              int64_t state_stride) {
    const auto& head = *reinterpret_cast<const GuessTextRow::Head*>(text);
    RowCarver row(text);
    GuessTextRow::carve(head, row);
    return row.size() <= text_stride &&
           guess_state_size(head.size, head.source_length) <= state_stride &&
           reinterpret_cast<const GuessTables::Head*>(tables)->alphabet_size <= kMostNgramSymbols;
  }

  __device__ static Guesser on(const uint8_t* tables, const uint8_t* text, GuessShared& shared) {
    RowCarver table_row(tables), text_row(text);
    const GuessTables carved =
        GuessTables::carve(*reinterpret_cast<const GuessTables::Head*>(tables), table_row);
    const GuessText copy_text =
        GuessTextRow::carve(*reinterpret_cast<const GuessTextRow::Head*>(text), text_row);
    return {{carved.symbols, copy_text}, carved.ngram, shared, {shared.seen}};
  }

  // The state behind BOS.
  __device__ void start(const GuessStateView& root) const {
    for (int32_t i = lane_index(); i < rules.text.size; i += kWarp) root.match_lengths[i] = i == 0;
    for (int32_t i = lane_index(); i <= rules.text.source_length; i += kWarp) root.copied[i] = 0;
    if (team.leads()) rules.start(*root.place);
    team.sync();
  }

  __device__ void advance(const GuessStateView& parent, int32_t token,
                          const GuessStateView& child) const {
    advance_guess(team, rules, parent, token, child);
  }

  // Calls use(token, log_prob, place) for every token that may come, the likeliest at place 0; of
  // equals the lower id comes first. Returns how many places there are.
  template <typename Use>
  __device__ int32_t tokens(const GuessStateView& from, Use use) const {
    const int count =
        guess_symbols(team, rules, ngram, from, {shared.context, shared.path, shared.found});
    for (int i = lane_index(); i < count; i += kWarp) {
      const WeighedToken token = rules.weigh(shared.found[i], *from.place);
      shared.found[i] = {token.token, token.probability};
      shared.lost[i] = token.lost;
    }
    team.sync();
    float total = 1.0f;
    int32_t places = 0;
    for (int i = 0; i < count; ++i) {
      total -= shared.lost[i];
      places += shared.found[i].symbol != SymbolTable::kNoToken;
    }
    for (int i = lane_index(); i < count; i += kWarp) {
      const SymbolProbability& token = shared.found[i];
      if (token.symbol != SymbolTable::kNoToken)
        use(token.symbol, logf(token.probability / total), place_of(token, count));
    }
    team.sync();
    return places;
  }

  __device__ int32_t place_of(const SymbolProbability& mine, int count) const {
    int32_t place = 0;
    for (int i = 0; i < count; ++i) {
      const SymbolProbability& other = shared.found[i];
      if (other.symbol == SymbolTable::kNoToken) continue;
      place += other.probability > mine.probability ||
               (other.probability == mine.probability && other.symbol < mine.symbol);
    }
    return place;
  }
};

}  // namespace molspec::cuda
