#include "drafting/guess_trainer.h"

#include <utility>

namespace molspec {

GuessTrainer::GuessTrainer(TokenRoles roles, bool rewrites)
    : model_(std::move(roles), rewrites),
      guess_(nullptr, 0, model_),
      builder_(Guess::kNgramOrder, GuessModel::alphabet_size(model_.symbols())) {}

void GuessTrainer::add(const int32_t* source_ids, int source_length, const int32_t* target_ids,
                       int target_length) {
  for (int i = 0; i < target_length; ++i) model_.roles().check_token(target_ids[i]);
  guess_.restart(source_ids, source_length);
  guess_.start(state_);
  for (int i = 0; i <= target_length; ++i) {
    const int32_t token = i < target_length ? target_ids[i] : model_.roles().special().eos;
    const GuessContext context = guess_.context(state_);
    builder_.add(context.data(), static_cast<int>(context.size()),
                 guess_.observed_symbol(state_, token));
    if (i == target_length) return;
    guess_.advance(state_, token, next_);
    std::swap(state_, next_);
  }
}

std::string GuessTrainer::build(double discount, double min_gain) const {
  return builder_.build({discount, min_gain, model_.rewrites()});
}

}  // namespace molspec
