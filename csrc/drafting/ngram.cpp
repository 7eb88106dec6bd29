#include "drafting/ngram.h"

#include "drafting/ngram_file.h"

namespace molspec {

NgramModel::NgramModel(const std::string& bytes) {
  NgramReader reader(bytes);
  order_ = static_cast<int>(reader.number(1));
  if (order_ < 1 || order_ > kMaxOrder)
    fail_ngram("order is ", order_, ": expected 1 to ", kMaxOrder);
  const uint32_t rewrites = reader.number(1);
  if (rewrites > 1) fail_ngram("rewrites is ", rewrites, ": expected 0 or 1");
  rewrites_ = rewrites == 1;
  alphabet_size_ = static_cast<int>(reader.number(2));
  const uint32_t context_count = reader.number(4);
  const auto read_symbol = [&] {
    const uint32_t symbol = reader.number(symbol_bytes(alphabet_size_));
    if (symbol < static_cast<uint32_t>(alphabet_size_)) return static_cast<uint16_t>(symbol);
    fail_ngram("symbol ", symbol, " before byte ", reader.offset(), ": expected less than ",
               alphabet_size_);
  };
  uint32_t next_child = 1;
  for (uint32_t index = 0; index < context_count; ++index) {
    if (index >= next_child) fail_ngram("context ", index, " has no parent");
    context_symbols_.push_back(index == 0 ? uint16_t{0} : read_symbol());
    const uint32_t child_count = reader.varint();
    const float back_off = kMaxBackOff * coded_probability(static_cast<uint8_t>(reader.number(1)));
    contexts_.push_back({next_child, static_cast<uint32_t>(continuations_.size()), back_off});
    for (uint32_t left = reader.varint(); left > 0; --left) {
      const uint16_t symbol = read_symbol();
      continuations_.push_back({symbol, static_cast<uint8_t>(reader.number(1))});
    }
    next_child += child_count;
    if (next_child > context_count) break;
  }
  if (next_child != context_count)
    fail_ngram("its contexts are ", context_count, ", but by the child counts ", next_child);
  if (!reader.at_end()) fail_ngram("bytes left over at ", reader.offset());
  contexts_.push_back({next_child, static_cast<uint32_t>(continuations_.size()), 1.0F});
  for (int code = 0; code < 256; ++code)
    probabilities_.push_back(coded_probability(static_cast<uint8_t>(code)));
  for (size_t context = 0; context < context_count; ++context) check_context(context);
}

void NgramModel::check_context(size_t context) const {
  const NgramContext& here = contexts_[context];
  const NgramContext& next = contexts_[context + 1];
  float sum = 0;
  for (size_t i = here.first_continuation; i < next.first_continuation; ++i) {
    sum += probabilities_[continuations_[i].code];
    if (i > here.first_continuation && continuations_[i].symbol <= continuations_[i - 1].symbol)
      fail_ngram("continuations of context ", context, " do not rise");
  }
  if (sum > 1.0001F)
    fail_ngram("probabilities of context ", context, " sum to ", std::to_string(sum),
               ": expected at most 1");
  for (size_t i = here.first_child + size_t{1}; i < next.first_child; ++i)
    if (context_symbols_[i] <= context_symbols_[i - 1])
      fail_ngram("children of context ", context, " do not rise");
}

}  // namespace molspec
