// Many copied tokens at once, by a warp. All lanes must call.
//
// Each advance (drafting/guess_rules.h) needs the one before it. But copied tokens are known from
// the copy text, and so is the state several tokens later, unless a better copy point appears in
// between: the caller must check every intermediate state.

#pragma once

#include "cuda/warp_team.cuh"

namespace molspec::cuda {

struct CopyRun {
  const GuessRules& rules;
  const WarpTeam& team;

  // Writes to `to`, which has another cursor, the state after copying `count` tokens from `from`, a
  // lane each. Returns the last token; or kNoToken, with `to` invalid, if copying ends earlier or
  // needs more than symbols and rings: after a "." it continues elsewhere.
  __device__ int32_t follow(const GuessStateView& from, int32_t count,
                            const GuessStateView& to) const {
    const GuessText& text = rules.text;
    const int lane = lane_index(), begin = from.cursor->copy_point;
    const bool is = lane < count && begin + lane < text.size;
    const int32_t symbol = is ? text.symbols[begin + lane] : rules.symbols.special.pad;
    const TokenKind kind = is ? rules.text_kind(begin + lane) : TokenKind::kOther;
    if (__any_sync(~0U, lane < count && !continues(symbol, kind))) return SymbolTable::kNoToken;
    team.copy(from.copied, to.copied, text.source_length + 1);
    extend_matches(from.match_lengths, text.code_of_symbol[symbol], count, to.match_lengths);
    if (team.leads()) to.cursor->rings = from.cursor->rings;
    team.sync();
    const int32_t last = follow_rings(symbol, count, to.cursor->rings);
    if (last == SymbolTable::kNoToken) return last;
    const unsigned all = (2U << (count - 1)) - 1;
    const int opened = __popc(__ballot_sync(~0U, kind == TokenKind::kOpen) & all);
    const int closed = __popc(__ballot_sync(~0U, kind == TokenKind::kClose) & all);
    // The lane's symbol in the history: the last lane has the newest.
    const int32_t newest = __shfl_sync(~0U, symbol, max(count - 1 - lane, 0));
    if (is && kind == TokenKind::kAtom) to.copied[text.atoms[begin + lane]] = 1;
    if (lane < GuessCursor::kHistory)
      to.cursor->history[lane] = lane < count ? newest : from.cursor->history[lane - count];
    if (team.leads()) {
      to.cursor->copy_point = begin + count;
      to.cursor->open_parentheses = from.cursor->open_parentheses + opened - closed;
    }
    team.sync();
    return last;
  }

 private:
  // Whether a symbol is a ring's, or a token after which copying continues.
  __device__ bool continues(int32_t symbol, TokenKind kind) const {
    if (symbol >= rules.symbols.vocab_size) return true;
    const bool digit = rules.symbols.ring_numbers[symbol] != SymbolTable::kNotRing;
    return !digit && kind != TokenKind::kDot && !rules.symbols.special.holds(symbol);
  }

  // Opens and closes the rings of the symbols of `count` lanes, one after the other, and returns
  // the token of the last symbol; kNoToken if one of them has none.
  __device__ int32_t follow_rings(int32_t symbol, int32_t count, OpenRings& rings) const {
    int32_t last = __shfl_sync(~0U, symbol, count - 1);
    const bool is_last_ring = last >= rules.symbols.vocab_size;
    unsigned left = __ballot_sync(~0U, lane_index() < count && symbol >= rules.symbols.vocab_size);
    for (; left != 0; left &= left - 1) {
      const int at = __ffs(static_cast<int>(left)) - 1;
      const int32_t token = rules.symbols.token(__shfl_sync(~0U, symbol, at), rings);
      if (token == SymbolTable::kNoToken || rules.symbols.special.holds(token))
        return SymbolTable::kNoToken;
      if (is_last_ring) last = token;
      team.sync();  // all have read the rings
      if (team.leads()) rules.symbols.advance(token, rings);
      team.sync();
    }
    return last;
  }

  // Updates, for every position, how many of the newest symbols precede it. Lanes hold the codes of
  // the new symbols, the last in lane count - 1. Most positions need only a few of them. The last
  // words come first, since a child may be its own parent, kTogether of a lane at once.
  __device__ void extend_matches(const uint8_t* parent, uint8_t code, int32_t count,
                                 uint8_t* child) const {
    constexpr int kTogether = 4;
    const auto* text = reinterpret_cast<const uint32_t*>(rules.text.codes);
    const auto* from = reinterpret_cast<const uint32_t*>(parent);
    const int32_t words = (rules.text.size + 3) / 4;
    for (int32_t end = words; end > 0; end -= kTogether * kWarp) {
      int32_t word[kTogether];
      // For four positions: 0xFF bytes for those that still match, the preceding bytes, and the
      // numbers of matches.
      uint32_t alive[kTogether], here[kTogether], length[kTogether];
      bool some = false;
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        word[i] = end - 1 - i * kWarp - lane_index();
        alive[i] = word[i] >= 0 ? ~0U : 0;
        here[i] = text[max(word[i], 0)];
        length[i] = 0;
      }
      for (int32_t back = 1; back <= count; back += 4) {
        uint32_t before[kTogether];
#pragma unroll
        for (int i = 0; i < kTogether; ++i)
          before[i] = at(text, word[i] - 1 - back / 4, kNoCode * 0x01010101U);
#pragma unroll
        for (int step = 0; step < 4; ++step) {
          const uint32_t code_then = __shfl_sync(~0U, code, max(count - back - step, 0));
          const uint32_t wanted = back + step <= count ? code_then * 0x01010101U : 0;
#pragma unroll
          for (int i = 0; i < kTogether; ++i) {
            const uint32_t symbols = __funnelshift_r(before[i], here[i], 8 * (3 - step));
            if (back + step <= count) alive[i] &= __vcmpeq4(symbols, wanted);
            if (back + step <= count) length[i] += alive[i] & 0x01010101U;
          }
        }
        some = false;
#pragma unroll
        for (int i = 0; i < kTogether; ++i) {
          some |= alive[i] != 0;
          here[i] = before[i];
        }
        if (!__any_sync(~0U, some)) break;
      }
      const int32_t high = (count - 1) / 4, shift = 8 * (3 - (count - 1) % 4);
#pragma unroll
      for (int i = 0; i < kTogether && some; ++i) {
        const uint32_t low = at(from, word[i] - high - 1, 0);
        const uint32_t matches = __funnelshift_r(low, at(from, word[i] - high, 0), shift);
        length[i] = __vaddus4(length[i], alive[i] & matches);
      }
      team.sync();  // all have read before one writes
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        if (word[i] >= 0) reinterpret_cast<uint32_t*>(child)[word[i]] = length[i];
    }
  }

  // A word of a row, or `before` if it precedes the row.
  __device__ static uint32_t at(const uint32_t* row, int32_t word, uint32_t before) {
    const uint32_t found = row[max(word, 0)];
    return word < 0 ? before : found;
  }
};

}  // namespace molspec::cuda
