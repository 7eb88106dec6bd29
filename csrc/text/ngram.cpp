#include "text/ngram.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace molspec {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument("n-gram model: " + what);
}

// Reads little-endian numbers and never beyond the end.
class ByteReader {
 public:
  ByteReader(const std::string& bytes, size_t end) : bytes_(bytes), end_(end) {}

  size_t offset() const { return offset_; }
  bool at_end() const { return offset_ == end_; }

  uint32_t number(int byte_count) {
    uint32_t value = 0;
    for (int i = 0; i < byte_count; ++i) value |= static_cast<uint32_t>(byte()) << (8 * i);
    return value;
  }

  uint32_t varint() {
    uint32_t value = 0;
    for (int shift = 0; shift < 28; shift += 7) {
      const uint8_t part = byte();
      value |= static_cast<uint32_t>(part & 0x7F) << shift;
      if ((part & 0x80) == 0) return value;
    }
    fail("number too long at byte " + std::to_string(offset_));
  }

  uint8_t byte() {
    if (offset_ == end_) fail("ends early, at byte " + std::to_string(offset_));
    return static_cast<uint8_t>(bytes_[offset_++]);
  }

 private:
  const std::string& bytes_;
  size_t end_;
  size_t offset_ = 0;
};

constexpr size_t kMagicSize = sizeof(NgramModel::kMagic) - 1;
constexpr size_t kHashSize = 8;

// The bytes before the hash, once magic and hash are found right.
size_t checked_end(const std::string& bytes) {
  if (bytes.size() < kMagicSize + kHashSize ||
      bytes.compare(0, kMagicSize, NgramModel::kMagic) != 0) {
    fail("the file does not begin with " + std::string(NgramModel::kMagic));
  }
  const size_t end = bytes.size() - kHashSize;
  uint64_t expected = 0;
  for (size_t i = kHashSize; i-- > 0;) {
    expected = (expected << 8) | static_cast<uint8_t>(bytes[end + i]);
  }
  if (ngram_hash(bytes.data(), end) != expected) {
    fail("the hash at byte " + std::to_string(end) + " is not that of the bytes before: damaged");
  }
  return end;
}

}  // namespace

float ngram_probability(uint8_t code) { return std::exp2(-static_cast<float>(code) / 16.0F); }

uint64_t ngram_hash(const char* bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001b3U;
  }
  return hash;
}

NgramModel::NgramModel(const std::string& bytes) {
  ByteReader reader(bytes, checked_end(bytes));
  for (size_t i = 0; i < kMagicSize; ++i) reader.byte();
  order_ = static_cast<int>(reader.number(1));
  alphabet_size_ = static_cast<int>(reader.number(2));
  const uint32_t context_count = reader.number(4);
  if (order_ < 1 || order_ > kMaxOrder) {
    fail("order is " + std::to_string(order_) + ": expected 1 to " + std::to_string(kMaxOrder));
  }
  if (alphabet_size_ < 1) fail("alphabet size is 0: expected at least 1");
  const int symbol_bytes = alphabet_size_ <= 256 ? 1 : 2;
  const auto symbol = [&] {
    const uint32_t value = reader.number(symbol_bytes);
    if (value >= static_cast<uint32_t>(alphabet_size_)) {
      fail("symbol " + std::to_string(value) + " before byte " + std::to_string(reader.offset()) +
           ": expected less than " + std::to_string(alphabet_size_));
    }
    return static_cast<uint16_t>(value);
  };
  uint32_t next_child = 1;
  for (uint32_t index = 0; index < context_count; ++index) {
    if (index >= next_child)
      fail("a context without parent at byte " + std::to_string(reader.offset()));
    context_symbols_.push_back(index == 0 ? uint16_t{0} : symbol());
    Context context{};
    context.first_child = next_child;
    context.child_count = reader.varint();
    context.back_off = kMaxBackOff * ngram_probability(reader.byte());
    context.first_continuation = static_cast<uint32_t>(continuations_.size());
    context.continuation_count = reader.varint();
    for (uint32_t i = 0; i < context.continuation_count; ++i) {
      const uint16_t continuation = symbol();
      continuations_.push_back({continuation, ngram_probability(reader.byte())});
    }
    next_child += context.child_count;
    contexts_.push_back(context);
  }
  if (next_child != std::max(context_count, 1U)) fail("contexts and their child counts disagree");
  if (contexts_.empty()) fail("no contexts: expected at least the empty one");
  if (!reader.at_end()) fail("bytes left over at " + std::to_string(reader.offset()));
  check_probabilities();
}

void NgramModel::check_probabilities() const {
  for (const Context& context : contexts_) {
    float sum = 0;
    for (uint32_t i = 0; i < context.continuation_count; ++i) {
      const Continuation& continuation = continuations_[context.first_continuation + i];
      sum += continuation.probability;
      if (i > 0 &&
          continuation.symbol <= continuations_[context.first_continuation + i - 1].symbol) {
        fail("the continuations of a context do not rise");
      }
    }
    if (sum > 1.0001F) fail("the probabilities of a context sum to " + std::to_string(sum));
    for (uint32_t i = 1; i < context.child_count; ++i) {
      const uint32_t child = context.first_child + i;
      if (context_symbols_[child] <= context_symbols_[child - 1]) {
        fail("the children of a context do not rise");
      }
    }
  }
}

const NgramModel::Context* NgramModel::child(const Context& context, int32_t symbol) const {
  const auto begin = context_symbols_.begin() + context.first_child;
  const auto end = begin + context.child_count;
  const auto found = std::lower_bound(begin, end, symbol);
  if (found == end || *found != symbol) return nullptr;
  return &contexts_[static_cast<size_t>(found - context_symbols_.begin())];
}

void NgramModel::distribution(const int32_t* context, int context_length,
                              float* probabilities) const {
  std::fill(probabilities, probabilities + alphabet_size_, 0.0F);
  const Context* node = contexts_.data();
  for (int depth = 0;; ++depth) {
    const Continuation* first = continuations_.data() + node->first_continuation;
    if (depth > 0) {
      const float back_off = node->back_off;
      for (int i = 0; i < alphabet_size_; ++i) probabilities[i] *= back_off;
    }
    for (uint32_t i = 0; i < node->continuation_count; ++i) {
      probabilities[first[i].symbol] = first[i].probability;
    }
    if (depth == std::min(context_length, order_ - 1)) return;
    node = child(*node, context[context_length - 1 - depth]);
    if (node == nullptr) return;
  }
}

}  // namespace molspec
