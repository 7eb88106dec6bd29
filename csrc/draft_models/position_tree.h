// A draft tree from log-probs of several positions, each guessed independently: the probability of
// a path is the product of its tokens' probabilities.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "drafting/best_first.h"
#include "search/ranking.h"

namespace molspec {

// Not thread-safe; allocates nothing once its buffers have grown.
class PositionTrees {
 public:
  // min_log_prob: of a node's path. Throws std::invalid_argument for a node_budget below 1.
  PositionTrees(int32_t node_budget, float min_log_prob) : best_first_(node_budget, min_log_prob) {}

  // Replaces `out` with the likeliest paths. `positions` are the log-probs [vocab_size] of
  // successive positions. Special tokens are left out; a position that has only such tokens ends
  // the paths.
  void draft(const std::vector<const float*>& positions, int32_t vocab_size,
             const SpecialIds& special, DraftTree& out) {
    const auto most = static_cast<int32_t>(positions.size());
    ranked_.resize(std::max(ranked_.size(), positions.size()));
    int32_t ranked_count = 0;
    const auto next_tokens = [&](const DraftTree&, int32_t, int32_t position) -> const auto& {
      std::vector<Candidate>& tokens = ranked_[position];
      if (position < ranked_count) return tokens;
      ++ranked_count;  // a path reaches the positions in their order
      best_tokens(positions[position], vocab_size, std::min(kMostSiblings, vocab_size), tokens);
      std::erase_if(tokens, [&](const Candidate& next) { return special.holds(next.token_id); });
      return tokens;
    };
    best_first_.draft(most, next_tokens, out);
  }

 private:
  // Candidates of one position, special tokens counted (they are then left out).
  static constexpr int32_t kMostSiblings = 8;

  BestFirst best_first_;
  std::vector<std::vector<Candidate>> ranked_;  // by position
};

}  // namespace molspec
