#include "drafting/guess_rows.h"

#include <cstring>
#include <optional>
#include <stdexcept>

#include "drafting/guess.h"

namespace molspec {
namespace {

// Copies an array to where it lies in a row that the carver laid out.
template <typename T>
void put(std::string& row, const uint8_t* base, const T* at, const T* from, int64_t count) {
  std::memcpy(&row[reinterpret_cast<const uint8_t*>(at) - base], from,
              static_cast<size_t>(count) * sizeof(T));
}

template <typename Row>
std::string empty_row(const typename Row::Head& head) {
  RowCarver measure(nullptr);
  Row::carve(head, measure);
  std::string row(static_cast<size_t>(measure.size()), '\0');
  std::memcpy(row.data(), &head, sizeof(head));
  return row;
}

// Of each context, the context without its oldest symbol.
std::vector<uint32_t> context_parents(const NgramTable& ngram) {
  std::vector<uint32_t> parents(ngram.context_count);
  for (uint32_t parent = 0; parent < ngram.context_count; ++parent)
    for (uint32_t child = ngram.contexts[parent].first_child;
         child < ngram.contexts[parent + 1].first_child; ++child)
      parents[child] = parent;
  return parents;
}

// Returns nothing if the hashes of this seed cannot distinguish two contexts.
std::optional<std::vector<ContextEntry>> context_entries(const NgramTable& ngram,
                                                         const std::vector<uint32_t>& parents,
                                                         const ContextIndex& index) {
  std::vector<ContextEntry> entries(size_t{index.bucket_count} * ContextIndex::kBucket);
  std::vector<ContextHash> hashes(ngram.context_count, index.begin());
  for (uint32_t context = 1; context < ngram.context_count; ++context) {
    ContextHash& hash = hashes[context] = hashes[parents[context]];
    hash.add(ngram.context_symbols[context]);
    size_t at = size_t{hash.bucket & (index.bucket_count - 1)} * ContextIndex::kBucket;
    for (; entries[at].context != 0; at = (at + 1) % entries.size())
      if (entries[at].tag == hash.tag) return std::nullopt;
    entries[at] = {hash.tag, context};
  }
  return entries;
}

}  // namespace

std::string guess_tables_row(const GuessModel& model) {
  if (model.ngram() == nullptr) throw std::invalid_argument("there is no n-gram model");
  const SymbolTable symbols = model.symbols();
  const NgramTable ngram = model.ngram()->table();
  const int64_t continuations = ngram.contexts[ngram.context_count].first_continuation;
  ContextIndex index{nullptr, nullptr, 1, 0};
  while (index.bucket_count <= ngram.context_count) index.bucket_count *= 2;
  const std::vector<uint32_t> parents = context_parents(ngram);
  std::optional<std::vector<ContextEntry>> entries;
  while (!(entries = context_entries(ngram, parents, index))) ++index.seed;
  const GuessTables::Head head{symbols.special,     symbols.vocab_size,
                               ngram.order,         ngram.alphabet_size,
                               ngram.context_count, static_cast<uint32_t>(continuations),
                               index.bucket_count,  index.seed};
  std::string row = empty_row<GuessTables>(head);
  const auto* base = reinterpret_cast<const uint8_t*>(row.data());
  RowCarver carver(base);
  const GuessTables at = GuessTables::carve(head, carver);
  put(row, base, at.symbols.kinds, symbols.kinds, symbols.vocab_size);
  put(row, base, at.symbols.ring_numbers, symbols.ring_numbers, symbols.vocab_size);
  put(row, base, at.symbols.ring_tokens, symbols.ring_tokens, SymbolTable::kRingNumbers);
  const NgramTable& table = at.ngram.table;
  put(row, base, table.contexts, ngram.contexts, int64_t{ngram.context_count} + 1);
  put(row, base, table.context_symbols, ngram.context_symbols, ngram.context_count);
  put(row, base, table.continuations, ngram.continuations, continuations);
  put(row, base, table.probabilities, ngram.probabilities, 256);
  put(row, base, at.ngram.index.entries, entries->data(), static_cast<int64_t>(entries->size()));
  put(row, base, at.ngram.index.parents, parents.data(), ngram.context_count);
  return row;
}

std::string guess_text_row(const GuessModel& model, const std::vector<int32_t>& source_ids) {
  Guess guess(model);
  guess.restart(source_ids);
  const GuessText& text = guess.text();
  const GuessTextRow::Head head{text.size, text.source_length, model.symbols().alphabet_size(),
                                GuessTextRow::kFresh};
  std::string row = empty_row<GuessTextRow>(head);
  const auto* base = reinterpret_cast<const uint8_t*>(row.data());
  RowCarver carver(base);
  const GuessText at = GuessTextRow::carve(head, carver);
  put(row, base, at.symbols, text.symbols, text.size);
  put(row, base, at.atoms, text.atoms, text.size);
  put(row, base, at.codes, text.codes, text.size);
  put(row, base, at.code_of_symbol, text.code_of_symbol, head.alphabet_size);
  return row;
}

std::pair<int64_t, int64_t> guess_row_limits(const GuessModel& model, int longest) {
  const auto size =
      static_cast<int32_t>(model.rewrites() ? CopyTextWriter::most_size(longest) : longest + 1);
  RowCarver row(nullptr);
  GuessTextRow::carve({size, longest, model.symbols().alphabet_size(), 0}, row);
  return {row.size(), guess_state_size(size, longest)};
}

}  // namespace molspec
