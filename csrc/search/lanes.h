// Sequences of one query that grow at once, each by a choice of its own, on shared nodes: where two
// say the same they are one path of the tree, and a draft after one serves the other. Each round
// verifies drafts as greedy decoding does (rules/argmax.h).

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "search/beam_nodes.h"
#include "search/sampling.h"
#include "search/search.h"

namespace molspec {

struct Lane {
  std::vector<int32_t> token_ids;   // after BOS
  int32_t node = TokenTree::kNone;  // of the last token
  bool live = true;
  std::vector<int32_t> rows;  // of this round: the staged nodes that the lane went over
  // What accept_argmax goes on with.
  double log_prob = 0;
  int32_t finished = 0, token_count = 0;
  int64_t accepted_tokens = 0, emitted_tokens = 0;
};

class Lanes {
 public:
  explicit Lanes(Row row) : row_(std::move(row)) {}

  // Forgets everything; gives the node of BOS. The tree's row is empty.
  int32_t begin();
  // The node of a token after another.
  int32_t child_or_new(int32_t parent, int32_t token_id);

  // The next step: a node whose parent is evaluated or staged, once however often it is requested.
  // Then drafts after it, but none after which no token may follow; gives how many.
  void unstage();
  void stage(int32_t node);
  int32_t stage(int32_t node, const DraftTree& drafts, int32_t max_position);
  // Of a staged node: its row of log-probs.
  int32_t row_of(int32_t node) const { return rows_.at(node); }
  size_t staged_count() const { return staged_.size(); }
  // Puts what is staged before the decoder.
  void submit() const;

  // Lets a lane take the tokens that `choose(lane, row)` gives, a Drawn, as far as they are staged.
  template <typename Choose>
  Verdict advance(Lane& lane, const float* log_probs, int32_t vocab_size, int32_t max_length,
                  const Choose& choose);
  // Gives back the nodes that none of these has before it.
  void keep(const std::vector<int32_t>& nodes);
  // Gives back the chain of one token after a node.
  void cut_after(int32_t node, int32_t token_id);

 private:
  template <typename Choose>
  class Team;

  Row row_;
  BeamNodes nodes_;
  Beam kept_;                                  // scratch
  std::vector<int32_t> staged_;                // slots
  std::unordered_map<int32_t, int32_t> rows_;  // of staged slots
  std::vector<int32_t> placed_;                // by draft
};

// rules/argmax.h: this thread. A node is the lane's last one, or the row of a staged one and 1.
template <typename Choose>
class Lanes::Team {
 public:
  Team(const Lanes& lanes, Lane& lane, const float* log_probs, int32_t vocab_size,
       const Choose& choose)
      : lanes_(lanes),
        lane_(lane),
        log_probs_(log_probs),
        vocab_size_(vocab_size),
        choose_(choose),
        first_(lanes.rows_.at(lane.node)) {}

  Drawn likeliest(int32_t node) const {
    return choose_(lane_, log_probs_ + int64_t{row(node)} * vocab_size_);
  }
  int32_t drafted(int32_t node, int32_t token_id) const {
    const int32_t slot = lanes_.staged_[static_cast<size_t>(row(node))];
    const int32_t child = lanes_.row_.tree->child(slot, token_id);
    const auto found = lanes_.rows_.find(child);
    return found == lanes_.rows_.end() ? kLastToken : found->second + 1;
  }
  void keep(int32_t node, int32_t /*count*/) const { lane_.rows.push_back(row(node)); }
  void write(int32_t /*place*/, int32_t token_id) const { lane_.token_ids.push_back(token_id); }

 private:
  int32_t row(int32_t node) const { return node == kLastToken ? first_ : node - 1; }

  const Lanes& lanes_;
  Lane& lane_;
  const float* log_probs_;
  int32_t vocab_size_;
  const Choose& choose_;
  int32_t first_;
};

template <typename Choose>
Verdict Lanes::advance(Lane& lane, const float* log_probs, int32_t vocab_size, int32_t max_length,
                       const Choose& choose) {
  lane.rows.clear();
  const Team<Choose> team(*this, lane, log_probs, vocab_size, choose);
  const Verdict verdict = accept_argmax(team, row_.eos(), max_length, lane);
  lane.live = verdict == Verdict::kGoesOn;
  if (lane.live)
    lane.node = child_or_new(staged_[static_cast<size_t>(lane.rows.back())], lane.token_ids.back());
  return verdict;
}

}  // namespace molspec
