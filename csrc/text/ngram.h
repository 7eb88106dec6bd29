// A back-off n-gram model of symbol sequences: interpolated probabilities in Katz's (1987) form.
//
// The contexts form a trie that is read backwards from the newest symbol. Every context lists the
// continuations whose probability it knows better than the next shorter context; all others have
// the shorter context's probability times this context's back-off weight.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace molspec {

// The file ngram.bin, little-endian: "MSNGRAM1", u8 order, u16 alphabet size, u32 contexts; then
// for every context, breadth first from the empty one: its symbol (the oldest one; none for the
// empty context), varint child count, u8 back-off code, varint continuation count and so many
// pairs of symbol and u8 probability code, symbols rising; last the FNV-1a hash (u64) of all bytes
// before. Symbols are u8 where the alphabet fits, else u16. A probability code c stands for
// 2^(-c/16), a back-off code for kMaxBackOff times that.
class NgramModel {
 public:
  static constexpr int kMaxOrder = 16;
  static constexpr int kMaxAlphabet = 65535;
  static constexpr float kMaxBackOff = 4.0F;
  static constexpr char kMagic[] = "MSNGRAM1";

  // Throws std::invalid_argument, saying what is wrong and where, if the bytes are no valid model.
  explicit NgramModel(const std::string& bytes);

  int order() const { return order_; }
  int alphabet_size() const { return alphabet_size_; }

  // Fills probabilities[alphabet_size()] with the distribution behind a context, whose last symbol
  // is the newest; only the last order() - 1 are read. The sum is at most 1, up to rounding. Safe
  // from several threads.
  void distribution(const int32_t* context, int context_length, float* probabilities) const;

 private:
  struct Context {
    uint32_t first_child;
    uint32_t first_continuation;
    uint32_t child_count;
    uint32_t continuation_count;
    float back_off;
  };
  struct Continuation {
    uint16_t symbol;
    float probability;
  };

  void check_probabilities() const;
  // The child of a context by the next older symbol; null where the trie has none.
  const Context* child(const Context& context, int32_t symbol) const;

  int order_ = 0;
  int alphabet_size_ = 0;
  std::vector<Context> contexts_;
  std::vector<uint16_t> context_symbols_;
  std::vector<Continuation> continuations_;
};

// The probability that a code of ngram.bin stands for.
float ngram_probability(uint8_t code);
uint64_t ngram_hash(const char* bytes, size_t size);

}  // namespace molspec
