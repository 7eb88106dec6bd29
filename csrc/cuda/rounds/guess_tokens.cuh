// The likeliest tokens after a path by a guess, by a warp. All lanes must call.

#pragma once

#include "cuda/warp_team.cuh"

namespace molspec::cuda {

inline __device__ int64_t round16(int64_t size) { return (size + 15) / 16 * 16; }

// Shared memory for data that a warp reads repeatedly: a read there takes 30 cycles instead of 270.
struct Stage {
  uint8_t* base;
  int64_t room;
  int64_t used = 0;

  // Reserves `bytes` bytes; null if there is no room.
  __device__ uint8_t* take(int64_t bytes) {
    const int64_t begin = used, end = begin + round16(bytes);
    if (end > room) return nullptr;
    used = end;
    return base + begin;
  }

  // The block copies the array `from` and lets it point to the copy, if there is room; the block
  // must synchronise before it reads the copy.
  template <typename T>
  __device__ void keep(const T*& from, int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    uint8_t* to = take(bytes);
    if (!to) return;
    const auto* words = reinterpret_cast<const uint64_t*>(from);
    from = reinterpret_cast<const T*>(to);
    for (auto i = static_cast<int32_t>(threadIdx.x); i < (bytes + 7) / 8; i += blockDim.x)
      reinterpret_cast<uint64_t*>(to)[i] = words[i];
  }
};

// The inputs of a warp's guesses: the model's row and a query's.
struct Guesser {
  GuessRules rules;
  IndexedNgram ngram;
  GuessShared& shared;
  WarpTeam team;

  // Whether the rows are consistent: with others a guess would read out of bounds.
  __device__ static bool fits(const uint8_t* tables, const uint8_t* text, int64_t text_stride,
                              int64_t state_stride) {
    const auto& head = *reinterpret_cast<const GuessTextRow::Head*>(text);
    RowCarver row(text);
    GuessTextRow::carve(head, row);
    return row.size() <= text_stride &&
           guess_state_size(head.size, head.source_length) <= state_stride &&
           alphabet(tables) <= kMostNgramSymbols;
  }
  __device__ static int32_t alphabet(const uint8_t* tables) {
    return reinterpret_cast<const GuessTables::Head*>(tables)->alphabet_size;
  }

  __device__ static Guesser on(const uint8_t* tables, const uint8_t* text, GuessShared& shared) {
    RowCarver table_row(tables), text_row(text);
    const GuessTables carved =
        GuessTables::carve(*reinterpret_cast<const GuessTables::Head*>(tables), table_row);
    const GuessText copy_text =
        GuessTextRow::carve(*reinterpret_cast<const GuessTextRow::Head*>(text), text_row);
    return {{carved.symbols, copy_text}, carved.ngram, shared, WarpTeam{shared}};
  }

  // Moves the data that is read most to shared memory; the n-gram model's large arrays never.
  __device__ void keep(Stage& stage) {
    SymbolTable& symbols = rules.symbols;
    GuessText& text = rules.text;
    stage.keep(text.codes, text.size);
    stage.keep(text.code_of_symbol, symbols.alphabet_size());
    stage.keep(symbols.kinds, symbols.vocab_size);
    stage.keep(symbols.ring_numbers, symbols.vocab_size);
    stage.keep(symbols.ring_tokens, SymbolTable::kRingNumbers);
    stage.keep(ngram.table.probabilities, 256);
    stage.keep(text.symbols, text.size);
    stage.keep(text.atoms, text.size);
  }

  // The state after BOS.
  __device__ void start(const GuessStateView& root) const {
    // Whole words, since they are read as words.
    const int32_t matches = (rules.text.size + 3) / 4 * 4;
    const int32_t copied = rules.text.source_length / 4 * 4 + 4;
    for (int32_t i = lane_index(); i < matches; i += kWarp) root.match_lengths[i] = i == 0;
    for (int32_t i = lane_index(); i < copied; i += kWarp) root.copied[i] = 0;
    if (team.leads()) rules.start(*root.cursor);
    team.sync();
  }

  __device__ void advance(const GuessStateView& parent, int32_t token,
                          const GuessStateView& child) const {
    advance_guess(team, rules, parent, token, child);
  }

  // Calls use(token, log_prob, rank) for every candidate token; the likeliest has rank 0, and
  // among equals the lower id comes first. Returns their number.
  template <typename Use>
  __device__ int32_t tokens(const GuessStateView& from, Use use) const {
    const int count = guess_symbols(team, rules, ngram, from, shared.context);
    for (int i = lane_index(); i < count; i += kWarp)
      shared.found[i] = weigh(shared.found[i], *from.cursor);
    team.sync();
    int32_t candidates = 0;
    for (int begin = 0; begin < count; begin += kWarp) {
      const SymbolProbability mine = shared.found[min(begin + lane_index(), count - 1)];
      const float own = kept(mine);
      float total = 1.0f;  // of all tokens
      int32_t rank = 0;
      candidates = 0;
#pragma unroll 4
      for (int i = 0; i < count; ++i) {
        const SymbolProbability other = shared.found[i];
        total -= lost(other);
        const bool is = other.symbol != SymbolTable::kNoToken;
        const bool before = kept(other) > own || (kept(other) == own && other.symbol < mine.symbol);
        candidates += is;
        rank += is && before;
      }
      if (begin + lane_index() < count && mine.symbol != SymbolTable::kNoToken)
        use(mine.symbol, logf(own / total), rank);
    }
    team.sync();
    return candidates;
  }

  // The result of GuessRules::weigh in place of the symbol: the token, and the symbol's
  // probability, negative if the token has only the share kUnbalanced of it. Without a token all of
  // it is lost.
  __device__ SymbolProbability weigh(const SymbolProbability& found,
                                     const GuessCursor& cursor) const {
    if (found.symbol == GuessRules::kNoSymbol) return {SymbolTable::kNoToken, 0};
    const int32_t token = rules.possible_token(found.symbol, cursor.rings);
    const bool whole = token == SymbolTable::kNoToken || rules.balanced(token, cursor);
    return {token, whole ? found.probability : -found.probability};
  }
  __device__ static float kept(const SymbolProbability& token) {
    return token.probability < 0 ? -token.probability * kUnbalanced : token.probability;
  }
  __device__ static float lost(const SymbolProbability& token) {
    if (token.symbol == SymbolTable::kNoToken) return token.probability;
    return token.probability < 0 ? -token.probability * (1.0f - kUnbalanced) : 0.0f;
  }
};

}  // namespace molspec::cuda
