// Guesses the next tokens of the paths of many queries in one step: a Spec-Drafter (Xia et al.,
// EMNLP Findings 2023). MASKs follow each path; they are nodes of the token PAD, which a decoder
// never reads otherwise. The path's last node guesses the next token, and each MASK the token after
// that. No node sees those after it, so the evaluated nodes of a path stay valid.
//
// A call is request(), plan(), one step of the decoder, advance(), and then trees().

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "draft_models/cached_paths.h"
#include "draft_models/position_tree.h"

namespace molspec {

class SpecDrafterPaths : public CachedPaths {
 public:
  // Throws std::invalid_argument for counts below 1.
  SpecDrafterPaths(int32_t row_count, std::shared_ptr<const GuessModel> model, int32_t node_budget,
                   float min_log_prob)
      : CachedPaths(row_count, std::move(model)), position_trees_(node_budget, min_log_prob) {}

  void plan() {
    tree_.clear_staged();
    const int32_t mask = model_->roles().special().pad;
    for (PathState& state : states_) {
      if (!state.sequence.live) continue;
      DraftTree masks;
      for (int32_t i = 0; i + 1 < state.count; ++i) masks.add(mask, i - 1, 0);
      stage(state, masks);
    }
  }
  // Reads log_probs [staged node, vocab_size]. A tree has the likeliest paths through the guessed
  // positions; for a sample it is the chain that its sampler draws. Throws std::invalid_argument if
  // nothing is staged.
  void advance(const float* log_probs, int32_t vocab_size) {
    check_staged();
    const StepLogProbs rows{tree_, log_probs, vocab_size};
    const SpecialIds& special = model_->roles().special();
    for (size_t i = 0; i < states_.size(); ++i) {
      const PathState& state = states_[i];
      if (!state.sequence.live) continue;
      positions_.clear();
      int32_t node = state.sequence.node;
      for (int32_t i = 0; i < state.count; ++i) {
        positions_.push_back(rows.after(node));
        node = tree_.child(node, special.pad);
      }
      if (state.sequence.sampler) {
        draw(state, vocab_size, trees_[i]);
      } else {
        position_trees_.draft(positions_, vocab_size, special, trees_[i]);
      }
    }
    keep(false);  // frees the MASKs: the next round extends the path by tokens
    finish_round(true);
  }

 private:
  void draw(const PathState& state, int32_t vocab_size, DraftTree& tree) const {
    const SpecialIds& special = model_->roles().special();
    const Sequence& sequence = state.sequence;
    int32_t last = DraftTree::kRoot;
    auto length = static_cast<uint32_t>(state.begin);
    for (const float* row : positions_) {
      const Drawn drawn = sequence.rule({row, vocab_size, length++, sequence, sequence.node});
      if (!(drawn.log_prob == drawn.log_prob) || special.holds(drawn.token_id)) return;
      last = tree.add(drawn.token_id, last, tree.log_prob(last) + std::min(drawn.log_prob, 0.0F));
    }
  }

  PositionTrees position_trees_;
  std::vector<const float*> positions_;  // of one path: its log-probs
};

}  // namespace molspec
