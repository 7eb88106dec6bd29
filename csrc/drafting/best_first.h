// Draft trees of the likeliest paths: the likeliest token that may be added is always added next.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/require.h"
#include "drafting/draft_tree.h"
#include "drafting/guess.h"

namespace molspec {

// Not thread-safe; allocates nothing once its buffers have grown.
class BestFirst {
 public:
  // min_log_prob: of a node's path. Throws std::invalid_argument for a node_budget below 1.
  BestFirst(int32_t node_budget, float min_log_prob)
      : node_budget_(node_budget), min_log_prob_(min_log_prob) {
    require(node_budget >= 1, "node_budget", node_budget, "at least 1");
  }

  // Replaces `out` with a tree of paths of at most max_depth tokens. next_tokens(out, node, depth)
  // returns the tokens that may follow a node or kRoot at this depth, likeliest first.
  template <typename NextTokens>
  void draft(int32_t max_depth, const NextTokens& next_tokens, DraftTree& out) {
    out.clear();
    heap_.clear();
    depths_.clear();
    const auto expand = [&](int32_t node, int32_t depth) {
      if (depth == max_depth) return;
      const float before = out.log_prob(node);
      for (const Candidate& next : next_tokens(out, node, depth)) {
        const float path = before + std::min(next.log_prob, 0.0F);
        if (!(path >= min_log_prob_)) break;
        heap_.push_back({path, node, next.token_id});
        std::push_heap(heap_.begin(), heap_.end(), worse);
      }
    };
    expand(DraftTree::kRoot, 0);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), worse);
      const Entry entry = heap_.back();
      heap_.pop_back();
      const int32_t node = out.add(entry.token, entry.parent, entry.log_prob);
      if (out.size() == node_budget_) return;
      depths_.push_back(entry.parent == DraftTree::kRoot ? 1 : depths_[entry.parent] + 1);
      expand(node, depths_.back());
    }
  }

 private:
  struct Entry {  // a candidate node
    float log_prob;
    int32_t parent;
    int32_t token;
  };
  static bool worse(const Entry& left, const Entry& right) {
    if (left.log_prob != right.log_prob) return left.log_prob < right.log_prob;
    if (left.parent != right.parent) return left.parent > right.parent;
    return left.token > right.token;
  }

  int32_t node_budget_;
  float min_log_prob_;
  std::vector<Entry> heap_;
  std::vector<int32_t> depths_;  // by node
};

}  // namespace molspec
