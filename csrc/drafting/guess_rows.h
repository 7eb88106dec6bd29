// What a guess reads and remembers as rows of bytes, for a device to guess from: tables of a model,
// the copy text of a query, the state of a path.

#pragma once

#include "common/limits.h"
#include "drafting/guess_rules.h"

namespace molspec {

// Takes arrays one behind the other, each where it may begin. With a null base only sizes count.
class RowCarver {
 public:
  MOLSPEC_ANYWHERE explicit RowCarver(const uint8_t* base) : base_(base) {}

  template <typename T>
  MOLSPEC_ANYWHERE const T* take(int64_t count) {
    offset_ = (offset_ + 7) / 8 * 8;
    const uint8_t* begin = base_ + offset_;
    offset_ += count * static_cast<int64_t>(sizeof(T));
    return reinterpret_cast<const T*>(begin);
  }
  MOLSPEC_ANYWHERE int64_t size() const { return (offset_ + 7) / 8 * 8; }

 private:
  const uint8_t* base_;
  int64_t offset_ = 0;
};

struct GuessTables {
  struct Head {
    SpecialIds special;
    int32_t vocab_size, order, alphabet_size;
    uint32_t context_count, continuation_count;
  };
  SymbolTable symbols;
  NgramTable ngram;

  MOLSPEC_ANYWHERE static GuessTables carve(const Head& head, RowCarver& row) {
    row.take<Head>(1);
    GuessTables tables{};
    tables.symbols.kinds = row.take<TokenKind>(head.vocab_size);
    tables.symbols.ring_numbers = row.take<int8_t>(head.vocab_size);
    tables.symbols.ring_tokens = row.take<int32_t>(SymbolTable::kRingNumbers);
    tables.symbols.vocab_size = head.vocab_size;
    tables.symbols.special = head.special;
    tables.ngram.contexts = row.take<NgramContext>(int64_t{head.context_count} + 1);
    tables.ngram.context_symbols = row.take<uint16_t>(head.context_count);
    tables.ngram.continuations = row.take<NgramContinuation>(head.continuation_count);
    tables.ngram.probabilities = row.take<float>(256);
    tables.ngram.context_count = head.context_count;
    tables.ngram.order = head.order;
    tables.ngram.alphabet_size = head.alphabet_size;
    return tables;
  }
};

struct GuessTextRow {
  struct Head {
    int32_t size, source_length, atom_count;
    int32_t alphabet_size;  // of ring symbols
    int32_t absorbed;       // tokens that the state at `root` has gone along; kFresh: there is none
    int32_t root;           // which of the first two states
  };
  static constexpr int32_t kFresh = -1;

  MOLSPEC_ANYWHERE static GuessText carve(const Head& head, RowCarver& row) {
    row.take<Head>(1);
    GuessText text{};
    text.symbols = row.take<int32_t>(head.size);
    text.atoms = row.take<int32_t>(head.size);
    text.codes = row.take<uint8_t>(head.size);
    text.code_of_symbol = row.take<uint8_t>(head.alphabet_size);
    text.size = head.size;
    text.source_length = head.source_length;
    text.atom_count = head.atom_count;
    return text;
  }
};

// A state's row: its place, match lengths and copied atoms.
constexpr int64_t kGuessPlaceBytes = 64;
static_assert(sizeof(GuessPlace) <= kGuessPlaceBytes, "a state's row begins with its place");

MOLSPEC_ANYWHERE inline GuessStateView guess_state_of(uint8_t* row, const GuessText& text) {
  uint8_t* match_lengths = row + kGuessPlaceBytes;
  return {match_lengths, match_lengths + text.size, reinterpret_cast<GuessPlace*>(row)};
}
MOLSPEC_ANYWHERE inline int64_t guess_state_size(int64_t text_size, int64_t source_length) {
  return (kGuessPlaceBytes + text_size + source_length + 1 + 7) / 8 * 8;
}

}  // namespace molspec
