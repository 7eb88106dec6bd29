// A draft tree from log-probs of several positions, each guessed independently: the probability of
// a path is the product of its tokens' probabilities.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/require.h"
#include "drafting/draft_tree.h"
#include "search/beam_nodes.h"

namespace molspec {

// Not thread-safe; allocates nothing once its buffers have grown.
class PlaceTrees {
 public:
  // min_log_prob: of a node's path. Throws std::invalid_argument for a node_budget below 1.
  PlaceTrees(int32_t node_budget, float min_log_prob)
      : node_budget_(node_budget), min_log_prob_(min_log_prob) {
    require(node_budget >= 1, "node_budget", node_budget, "at least 1");
  }

  // Replaces `out` with the likeliest paths. `places` are the log-probs [vocab_size] of successive
  // positions. Special tokens are left out; a position that has only such tokens ends the paths.
  void draft(const std::vector<const float*>& places, int32_t vocab_size, const SpecialIds& special,
             DraftTree& out) {
    out.clear();
    heap_.clear();
    ranked_count_ = 0;
    const auto first_of = [&](size_t place, int32_t parent, float before) {
      if (place == places.size()) return;
      const auto& tokens = ranked(place, places[place], vocab_size, special);
      if (!tokens.empty())
        push({before + std::min(tokens.front().log_prob, 0.0F), parent, static_cast<int32_t>(place),
              0});
    };
    first_of(0, DraftTree::kRoot, 0);
    while (!heap_.empty() && out.size() < node_budget_) {
      std::pop_heap(heap_.begin(), heap_.end(), worse);
      const Entry entry = heap_.back();
      heap_.pop_back();
      const auto& tokens = ranked_[entry.place];
      const auto rank = static_cast<size_t>(entry.rank);
      const int32_t node = out.add(tokens[rank].token, entry.parent, entry.log_prob);
      if (rank + 1 < tokens.size())
        push({out.log_prob(entry.parent) + std::min(tokens[rank + 1].log_prob, 0.0F), entry.parent,
              entry.place, entry.rank + 1});
      first_of(entry.place + 1, node, entry.log_prob);
    }
  }

 private:
  // Candidates of one position, special tokens counted (they are then left out).
  static constexpr int32_t kMostSiblings = 8;

  struct Entry {  // a candidate node: the token of this rank at a position
    float log_prob;
    int32_t parent, place, rank;
  };
  static bool worse(const Entry& left, const Entry& right) {
    if (left.log_prob != right.log_prob) return left.log_prob < right.log_prob;
    if (left.parent != right.parent) return left.parent > right.parent;
    return left.rank > right.rank;
  }
  void push(const Entry& entry) {
    if (!(entry.log_prob >= min_log_prob_)) return;
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(), worse);
  }
  // The likeliest tokens of a position, computed when a path first reaches it.
  const std::vector<Candidate>& ranked(size_t place, const float* log_probs, int32_t vocab_size,
                                       const SpecialIds& special) {
    if (ranked_.size() <= place) ranked_.resize(place + 1);
    std::vector<Candidate>& tokens = ranked_[place];
    if (place == ranked_count_) {
      best_tokens(log_probs, vocab_size, std::min(kMostSiblings, vocab_size), tokens);
      tokens.erase(
          std::remove_if(tokens.begin(), tokens.end(),
                         [&](const Candidate& token) { return special.holds(token.token); }),
          tokens.end());
      ++ranked_count_;
    }
    return tokens;
  }

  int32_t node_budget_;
  float min_log_prob_;
  std::vector<Entry> heap_;
  std::vector<std::vector<Candidate>> ranked_;  // by place
  size_t ranked_count_ = 0;
};

}  // namespace molspec
