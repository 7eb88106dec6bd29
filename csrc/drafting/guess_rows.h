// The data of a guess as rows of bytes, for guesses on a device: the tables of a model, the copy
// text of a query, the state of a path.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/limits.h"
#include "drafting/guess_rules.h"

namespace molspec {

// An n-gram model in the form that a device reads.
struct IndexedNgram {
  NgramTable table;
  ContextIndex index;
};

// Lays arrays out one after the other, aligned. With a null base it only computes the size.
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
    uint32_t context_count, continuation_count, bucket_count, seed;
  };
  SymbolTable symbols;
  IndexedNgram ngram;

  MOLSPEC_ANYWHERE static GuessTables carve(const Head& head, RowCarver& row) {
    row.take<Head>(1);
    GuessTables tables{};
    tables.symbols.kinds = row.take<TokenKind>(head.vocab_size);
    tables.symbols.ring_numbers = row.take<int8_t>(head.vocab_size);
    tables.symbols.ring_tokens = row.take<int32_t>(SymbolTable::kRingNumbers);
    tables.symbols.vocab_size = head.vocab_size;
    tables.symbols.special = head.special;
    NgramTable& ngram = tables.ngram.table;
    ngram.contexts = row.take<NgramContext>(int64_t{head.context_count} + 1);
    ngram.context_symbols = row.take<uint16_t>(head.context_count);
    ngram.continuations = row.take<NgramContinuation>(head.continuation_count);
    ngram.probabilities = row.take<float>(256);
    ngram.context_count = head.context_count;
    ngram.order = head.order;
    ngram.alphabet_size = head.alphabet_size;
    ContextIndex& index = tables.ngram.index;
    index.entries = row.take<ContextEntry>(int64_t{head.bucket_count} * ContextIndex::kBucket);
    index.parents = row.take<uint32_t>(head.context_count);
    index.bucket_count = head.bucket_count;
    index.seed = head.seed;
    return tables;
  }
};

struct GuessTextRow {
  struct Head {
    int32_t size, source_length;
    int32_t alphabet_size;  // of ring symbols
    int32_t absorbed;       // tokens in the root's state; kFresh: there is no state yet
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
    return text;
  }
};

// A state's row: its cursor, match lengths and copied atoms, in whole words.
constexpr int64_t kGuessCursorBytes = 72;
static_assert(
    sizeof(GuessCursor) + 8 <= kGuessCursorBytes,
    "a state's row begins with its cursor, and ends that with 8 bytes of the device's own");

MOLSPEC_ANYWHERE inline int64_t guess_row_bytes(int64_t count) { return (count + 7) / 8 * 8; }
MOLSPEC_ANYWHERE inline GuessStateView guess_state_of(uint8_t* row, const GuessText& text) {
  uint8_t* match_lengths = row + kGuessCursorBytes;
  return {match_lengths, match_lengths + guess_row_bytes(text.size),
          reinterpret_cast<GuessCursor*>(row)};
}
MOLSPEC_ANYWHERE inline int64_t guess_state_size(int64_t text_size, int64_t source_length) {
  return kGuessCursorBytes + guess_row_bytes(text_size) + guess_row_bytes(source_length + 1);
}

class GuessModel;

// The tables of a model's n-gram model; throws std::invalid_argument if it has none.
std::string guess_tables_row(const GuessModel& model);

// The copy text of a new query. source_ids without BOS and EOS; throws std::invalid_argument for
// ids outside the vocabulary.
std::string guess_text_row(const GuessModel& model, const std::vector<int32_t>& source_ids);

// The maximum bytes of a text row, and of a state's row, of a source of at most `longest` tokens.
std::pair<int64_t, int64_t> guess_row_limits(const GuessModel& model, int longest);

}  // namespace molspec
