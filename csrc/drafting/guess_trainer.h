// Trains the n-gram model of a guess from pairs of source and target.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "drafting/guess.h"
#include "drafting/ngram_builder.h"

namespace molspec {

class GuessTrainer {
 public:
  // rewrites: whether copies may come from rewritten molecules, see copy_text.h.
  GuessTrainer(TokenRoles roles, bool rewrites)
      : model_(std::move(roles), rewrites),
        guess_(model_),
        builder_(Guess::kNgramOrder, model_.alphabet_size()) {}
  GuessTrainer(const GuessTrainer&) = delete;  // the guess refers to the model
  GuessTrainer& operator=(const GuessTrainer&) = delete;

  // Ids without BOS and EOS. Throws std::invalid_argument for ids outside the vocabulary.
  void add(const std::vector<int32_t>& source_ids, const std::vector<int32_t>& target_ids) {
    model_.roles().check_tokens(target_ids);
    guess_.restart(source_ids);
    guess_.start(state_);
    for (const int32_t token : target_ids) {
      observe(token);
      guess_.advance(state_, token, next_);
      std::swap(state_, next_);
    }
    observe(model_.roles().special().eos);
  }
  // The bytes of an ngram.bin. Throws std::invalid_argument if there were no pairs.
  std::string build(double discount, double min_gain) const {
    return builder_.build({discount, min_gain, model_.rewrites()});
  }

 private:
  void observe(int32_t token) {
    const GuessContext context = guess_.context(state_);
    builder_.add({context.begin(), context.end()}, guess_.observed_symbol(state_, token));
  }

  GuessModel model_;
  Guess guess_;
  NgramBuilder builder_;
  GuessState state_;
  GuessState next_;
};

}  // namespace molspec
