// How a guess (guess.h) follows a path and predicts the next token, over flat arrays and by a
// *team* of threads: the calling thread on the host, a warp on a device. All members run this code
// and compute the same values; where only one may write, it is the one that `leads`. A team offers
//
//   leads(), sync()          sync: all members see the earlier writes of all
//   extend_matches, copy     loops over bytes
//   best_copy                the first position of the best score above one, or -1
//   look_up, found           the symbols that an n-gram model lists after a context (host_team.h)
//   find                     the index of a symbol in `found`, or -1; synchronises the team

#pragma once

#include "drafting/ngram_table.h"
#include "text/symbol_table.h"

namespace molspec {

// The candidates that are left out have at most this probability together.
constexpr float kGuessFloor = 2e-2F;

// The factor for a token that would unbalance parentheses or rings, which the n-gram model cannot
// count.
constexpr float kUnbalanced = 0.02F;

// Scores of copy points, in units of matching symbols: a longer match is better, up to a maximum;
// an atom that was copied before needs a much longer match; the source as given is better than its
// rewritings.
constexpr int kUnit = 8;
constexpr int kSettledMatch = 12;
constexpr int kCopiedPenalty = 5 * kUnit;
constexpr int kRewrittenPenalty = kUnit / 2;
constexpr int kStayBonus = 1;
// The score of an expected jump, in matching symbols.
constexpr uint8_t kExpectedMatch = 4;

// Classes of match lengths for the n-gram model: 0, 1, 2, 3, 4-5, 6-8, 9-13, 14 and more.
MOLSPEC_ANYWHERE inline int match_class(int length) {
  if (length < 4) return length;
  if (length < 6) return 4;
  if (length < 9) return 5;
  return length < 14 ? 6 : 7;
}
constexpr int kMatchClasses = 8;

// The state of a path, except its two rows of bytes.
struct GuessCursor {
  static constexpr int kHistory = 7;

  int32_t copy_point = 0;
  int32_t open_parentheses = 0;
  int32_t history[kHistory] = {};  // the newest symbols, newest first; BOS before them
  OpenRings rings;
};

// The context of the n-gram model, the most informative symbol last.
constexpr int kGuessContext = GuessCursor::kHistory + 5;

struct GuessStateView {
  // For every position of the copy text: how many of the newest symbols equal the symbols directly
  // before it, at most 255. BOS counts as before the first.
  uint8_t* match_lengths;
  uint8_t* copied;  // by source position: 1 if the path has copied its atom
  GuessCursor* cursor;
};

// The code of the text's symbols beyond the 255 that can be matched.
constexpr uint8_t kNoCode = 255;

// A copy text (copy_text.h), in one byte a symbol too; a symbol that it lacks has code 0.
struct GuessText {
  const int32_t *symbols, *atoms;  // [size]
  const uint8_t* codes;            // [size]
  const uint8_t* code_of_symbol;   // [alphabet of ring symbols]
  int32_t size, source_length;
};

// A predicted symbol as a token; kNoToken if it is not a token there.
struct WeighedToken {
  int32_t token;
  float probability;
  float lost;  // the part of the symbol's probability that is not the token's
};

struct GuessRules {
  static constexpr int32_t kNoSymbol = -1;

  SymbolTable symbols;
  GuessText text;

  // The symbol for "copies", whatever is at the copy point: the id after the last ring symbol.
  MOLSPEC_ANYWHERE int32_t copy_symbol() const { return symbols.alphabet_size(); }

  // kOther after the end of the source and of every rewriting; ring symbols are digits.
  MOLSPEC_ANYWHERE TokenKind text_kind(int32_t position) const {
    const int32_t symbol = text.symbols[position];
    return symbol < symbols.vocab_size ? symbols.kinds[symbol] : TokenKind::kRing;
  }

  // The state after BOS, but for the match lengths and copied atoms.
  MOLSPEC_ANYWHERE void start(GuessCursor& cursor) const {
    cursor = {};
    for (int32_t& symbol : cursor.history) symbol = symbols.special.bos;
  }

  // The part of `advance_guess` for the leading member.
  MOLSPEC_ANYWHERE void follow(const GuessCursor& parent, int32_t token, int32_t symbol,
                               const GuessStateView& child) const {
    const GuessCursor before = parent;  // a copy: for the compiler, `child` may alias it
    GuessCursor& cursor = *child.cursor;
    const bool ended = before.copy_point == text.source_length || symbol == symbols.special.pad;
    const bool continues = text.symbols[before.copy_point] == symbol && !ended;
    const TokenKind kind = symbols.kinds[token];
    if (continues && text_kind(before.copy_point) == TokenKind::kAtom)
      child.copied[text.atoms[before.copy_point]] = 1;
    cursor.copy_point = before.copy_point + continues;
    cursor.open_parentheses =
        before.open_parentheses + (kind == TokenKind::kOpen) - (kind == TokenKind::kClose);
    cursor.history[0] = symbol;
    for (int i = 1; i < GuessCursor::kHistory; ++i) cursor.history[i] = before.history[i - 1];
    cursor.rings = before.rings;
    symbols.advance(token, cursor.rings);
    expect_jump(before, kind, child);
  }

  // Two copy points that matching symbols cannot find: after ".", the first atom that is not copied
  // yet; after a branch that closed earlier than its original, the end of the original.
  MOLSPEC_ANYWHERE void expect_jump(const GuessCursor& parent, TokenKind kind,
                                    const GuessStateView& child) const {
    if (kind == TokenKind::kDot) {
      for (int32_t position = 0; position < text.source_length; ++position) {
        if (text_kind(position) != TokenKind::kAtom || child.copied[position] != 0) continue;
        return expect(position, child);
      }
    } else if (kind == TokenKind::kClose && child.cursor->copy_point == parent.copy_point) {
      int depth = 1;
      for (int32_t position = parent.copy_point; text_kind(position) != TokenKind::kOther;
           ++position) {
        depth += (text_kind(position) == TokenKind::kOpen);
        depth -= (text_kind(position) == TokenKind::kClose);
        if (depth <= 0) return expect(position + 1, child);
      }
    }
  }

  MOLSPEC_ANYWHERE static void expect(int32_t position, const GuessStateView& state) {
    uint8_t& match = state.match_lengths[position];
    if (match < kExpectedMatch) match = kExpectedMatch;
  }

  MOLSPEC_ANYWHERE int copy_score(const GuessStateView& state, int32_t position) const {
    const int length = state.match_lengths[position];
    const int match = length < kSettledMatch ? length : kSettledMatch;
    const bool copied = state.copied[text.atoms[position]] != 0;
    const bool rewritten = position > text.source_length;
    return kUnit * match - (copied ? kCopiedPenalty : 0) - (rewritten ? kRewrittenPenalty : 0);
  }

  MOLSPEC_ANYWHERE int32_t ahead(const GuessCursor& cursor, int32_t distance) const {
    const int32_t position = cursor.copy_point + distance;
    return position < text.size ? text.symbols[position] : symbols.special.pad;
  }

  MOLSPEC_ANYWHERE void context(const GuessStateView& state, int32_t* context) const {
    const GuessCursor& cursor = *state.cursor;
    const int32_t* past = cursor.history;
    const bool rewritten = cursor.copy_point > text.source_length;
    const int copying =
        match_class(state.match_lengths[cursor.copy_point]) + (rewritten ? kMatchClasses : 0);
    const int32_t entries[kGuessContext] = {
        ahead(cursor, 3), ahead(cursor, 2), ahead(cursor, 1), past[6], past[5],          past[4],
        past[3],          past[2],          past[1],          copying, ahead(cursor, 0), past[0]};
    for (int i = 0; i < kGuessContext; ++i) context[i] = entries[i];
  }

  // The token of a symbol after a state, if it may be drafted.
  MOLSPEC_ANYWHERE int32_t possible_token(int32_t symbol, const OpenRings& rings) const {
    const int32_t token = symbols.token(symbol, rings);
    if (token == SymbolTable::kNoToken) return token;
    if (symbols.special.holds(token) && token != symbols.special.eos) return SymbolTable::kNoToken;
    // A digit that opens a ring with another number than the lowest free one has its own symbol.
    const bool digit = symbol == token && symbols.kinds[token] == TokenKind::kRing;
    if (digit && symbols.symbol(token, rings) != symbol) return SymbolTable::kNoToken;
    return token;
  }

  MOLSPEC_ANYWHERE bool balanced(int32_t token, const GuessCursor& cursor) const {
    const TokenKind kind = symbols.kinds[token];
    if (kind == TokenKind::kClose) return cursor.open_parentheses > 0;
    if (kind == TokenKind::kDot || token == symbols.special.eos)
      return cursor.open_parentheses == 0 && cursor.rings.count == 0;
    return true;
  }

  MOLSPEC_ANYWHERE WeighedToken weigh(const SymbolProbability& found,
                                      const GuessCursor& cursor) const {
    if (found.symbol == kNoSymbol) return {SymbolTable::kNoToken, 0, 0};
    const int32_t token = possible_token(found.symbol, cursor.rings);
    if (token == SymbolTable::kNoToken) return {token, 0, found.probability};
    const float weight = balanced(token, cursor) ? 1.0F : kUnbalanced;
    return {token, found.probability * weight, found.probability * (1.0F - weight)};
  }
};

// Moves the copy point to a better position if there is one. Returns whether there is.
template <typename Team>
MOLSPEC_ANYWHERE bool choose_copy(const Team& team, const GuessRules& rules,
                                  const GuessStateView& state) {
  // While the path copies, no other position can be better: the usual case costs nothing.
  const int stay = rules.copy_score(state, state.cursor->copy_point) + kStayBonus;
  if (stay >= kUnit * kSettledMatch) return false;
  const int32_t position = team.best_copy(rules, state, stay);
  team.sync();  // all have read the copy point
  if (position >= 0 && team.leads()) state.cursor->copy_point = position;
  team.sync();
  return position >= 0;
}

// Writes the state after one more token to `child`.
template <typename Team>
MOLSPEC_ANYWHERE void advance_guess(const Team& team, const GuessRules& rules,
                                    const GuessStateView& parent, int32_t token,
                                    const GuessStateView& child) {
  const GuessText& text = rules.text;
  const int32_t symbol = rules.symbols.symbol(token, parent.cursor->rings);
  team.extend_matches(parent.match_lengths, text.codes, text.code_of_symbol[symbol],
                      child.match_lengths, text.size);
  team.copy(parent.copied, child.copied, text.source_length + 1);
  team.sync();
  if (team.leads()) rules.follow(*parent.cursor, token, symbol, child);
  team.sync();
  choose_copy(team, rules, child);
}

// Writes distinct symbols, and kNoSymbol, to `found`; returns how many. `context` has room for
// kGuessContext.
template <typename Team, typename Ngram>
MOLSPEC_ANYWHERE int guess_symbols(const Team& team, const GuessRules& rules, const Ngram& ngram,
                                   const GuessStateView& state, int32_t* context) {
  if (team.leads()) rules.context(state, context);
  team.sync();
  const int count = team.look_up(ngram, context, kGuessFloor);
  const int copy = team.find(count, rules.copy_symbol());
  if (copy < 0) return count;
  const int32_t symbol = rules.text.symbols[state.cursor->copy_point];
  const int same = team.find(count, symbol);
  SymbolProbability* found = team.found();
  team.sync();  // all have looked
  if (team.leads()) {
    if (same >= 0) found[same].probability += found[copy].probability;
    found[copy].symbol = same >= 0 ? GuessRules::kNoSymbol : symbol;
  }
  team.sync();
  return count;
}

}  // namespace molspec
