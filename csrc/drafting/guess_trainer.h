// Counts what the n-gram model of a guess needs from pairs of source and target.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "drafting/guess.h"
#include "drafting/ngram_builder.h"

namespace molspec {

class GuessTrainer {
 public:
  // rewrites: whether copies may come from rewritten molecules, see copy_text.h.
  GuessTrainer(TokenRoles roles, bool rewrites);
  GuessTrainer(const GuessTrainer&) = delete;  // the guess holds on to the model
  GuessTrainer& operator=(const GuessTrainer&) = delete;

  // Ids without BOS and EOS. Throws std::invalid_argument for ids outside of the vocabulary.
  void add(const int32_t* source_ids, int source_length, const int32_t* target_ids,
           int target_length);
  // The bytes of an ngram.bin. Throws std::invalid_argument without pairs.
  std::string build(double discount, double min_gain) const;

 private:
  GuessModel model_;
  Guess guess_;
  NgramBuilder builder_;
  GuessState state_;
  GuessState next_;
};

}  // namespace molspec
