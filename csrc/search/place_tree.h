// A tree of what several places may say, each guessed by itself: a path is as likely as its tokens
// together.

#pragma once

#include <cstdint>
#include <vector>

#include "drafting/draft_tree.h"

namespace molspec {

struct PlaceTreeOptions {
  int32_t node_budget;
  float min_log_prob;  // what is less likely is no node
};

// One thread at a time; allocates nothing once it is warm.
class PlaceTrees {
 public:
  explicit PlaceTrees(const PlaceTreeOptions& options) : options_(options) {}

  // Replaces `out` with the likeliest paths through the places, whose log-probs [vocab_size] these
  // are, the nearest first. Special tokens are no nodes; where none of a place's tokens may be one,
  // the paths end before it.
  void draft(const std::vector<const float*>& places, int32_t vocab_size, const SpecialIds& special,
             DraftTree& out);

 private:
  struct Entry {  // a token that may become a node: the place's `rank`th
    float log_prob;
    int32_t parent, place, rank;
  };
  static bool worse(const Entry& left, const Entry& right);
  void push(const Entry& entry);
  // The likeliest tokens of a place, ranked when a path first comes to it.
  const std::vector<Candidate>& ranked(size_t place, const float* log_probs, int32_t vocab_size,
                                       const SpecialIds& special);

  PlaceTreeOptions options_;
  std::vector<Entry> heap_;
  std::vector<std::vector<Candidate>> ranked_;  // by place
  size_t ranked_count_ = 0;
};

}  // namespace molspec
