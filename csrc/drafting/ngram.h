// A back-off n-gram model: interpolated probabilities in Katz's (1987) form.
//
// A context is a list of symbols, the most informative one last; it backs off by dropping its
// first. The contexts form a trie that is read from their ends. Every context lists the
// continuations whose probability differs enough from the next shorter context's; all others have
// the shorter context's probability times this context's back-off weight.

#pragma once

#include <string>
#include <vector>

#include "drafting/ngram_table.h"

namespace molspec {

class NgramModel {
 public:
  static constexpr int kMaxOrder = NgramTable::kMaxOrder;
  static constexpr int kMaxAlphabet = 65535;

  // Reads the bytes of an ngram.bin, see ngram_file.h. Throws std::invalid_argument, naming the
  // fault and its place, if they are not a valid model.
  explicit NgramModel(const std::string& bytes);

  int order() const { return order_; }
  int alphabet_size() const { return alphabet_size_; }
  // Whether the model was trained for copy texts with rewritten molecules, see copy_text.h.
  bool rewrites() const { return rewrites_; }

  NgramTable table() const {
    return {contexts_.data(),
            context_symbols_.data(),
            continuations_.data(),
            probabilities_.data(),
            static_cast<uint32_t>(context_symbols_.size()),
            order_,
            alphabet_size_};
  }

 private:
  void check_context(size_t context) const;

  int order_ = 0;
  int alphabet_size_ = 0;
  bool rewrites_ = false;
  std::vector<float> probabilities_;    // by code
  std::vector<NgramContext> contexts_;  // and an end mark
  std::vector<uint16_t> context_symbols_;
  std::vector<NgramContinuation> continuations_;
};

}  // namespace molspec
