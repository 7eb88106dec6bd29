// A back-off n-gram model: interpolated probabilities in Katz's (1987) form.
//
// A context is a list of symbols, the most telling one last; it backs off by forgetting its first.
// The contexts form a trie that is read from their ends. Every context lists the continuations
// whose probability it knows better than the next shorter context; all others have the shorter
// context's probability times this context's back-off weight.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace molspec {

struct SymbolProbability {
  int32_t symbol;
  float probability;
};

// What a lookup finds, and its scratch memory.
struct NgramLookup {
  std::vector<SymbolProbability> found;
  std::vector<uint32_t> stamps;  // [alphabet]: the lookup that found a symbol last
  uint32_t stamp = 0;
};

class NgramModel {
 public:
  static constexpr int kMaxOrder = 16;
  static constexpr int kMaxAlphabet = 65535;

  // Reads the bytes of an ngram.bin, see ngram_file.h. Throws std::invalid_argument, saying what is
  // wrong and where, if they are no valid model.
  explicit NgramModel(const std::string& bytes);

  int order() const { return order_; }
  int alphabet_size() const { return alphabet_size_; }
  // Whether the model was trained for copy texts with rewritten molecules, see copy_text.h.
  bool rewrites() const { return rewrites_; }
  int64_t context_count() const { return static_cast<int64_t>(context_symbols_.size()); }

  // Replaces lookup.found with the symbols behind a context, each once, those that the longest
  // known context lists first. Stops where all that are left have less than `floor` together, so
  // that the sum may be less than 1, but never more. At most the last order() - 1 symbols of the
  // context are read. Safe from several threads, each with a lookup of its own.
  void lookup(const int32_t* context, int context_length, float floor, NgramLookup& lookup) const;

 private:
  struct Context {  // children and continuations end where the next context's begin
    uint32_t first_child;
    uint32_t first_continuation;
    float back_off;
  };
  struct Continuation {
    uint16_t symbol;
    uint8_t code;
  };

  void check_context(size_t context) const;
  // The child of a context by its next symbol, or the number of contexts.
  uint32_t child(uint32_t context, int32_t symbol) const;

  int order_ = 0;
  int alphabet_size_ = 0;
  bool rewrites_ = false;
  std::array<float, 256> probabilities_;  // by code
  std::vector<Context> contexts_;         // and an end mark
  std::vector<uint16_t> context_symbols_;
  std::vector<Continuation> continuations_;
};

}  // namespace molspec
