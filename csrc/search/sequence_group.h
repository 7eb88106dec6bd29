// Sequences of one query that grow together, each by its own choices, on shared nodes. Two
// sequences with the same tokens are one path of the tree and share their drafts. Each round
// verifies drafts as greedy decoding does (rules/argmax.h), or by the rule of a spec.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "search/beam_nodes.h"

namespace molspec {

template <typename Team, typename Answer>
Verdict accept(const Team& team, std::monostate /*strict*/, int32_t eos_id, int32_t max_length,
               Answer& answer) {
  return accept_argmax(team, eos_id, max_length, answer);
}

struct Sequence {
  std::vector<int32_t> token_ids;   // after BOS
  int32_t node = TokenTree::kNone;  // of the last token; after advance() the last evaluated one
  bool live = true;
  std::vector<int32_t> rows;  // the staged nodes that the sequence accepted in this round
  // State that acceptance reads and updates.
  double log_prob = 0;
  int32_t finished = 0, token_count = 0, tolerated_tokens = 0;
  int64_t accepted_tokens = 0, emitted_tokens = 0;
};

class SequenceGroup {
 public:
  explicit SequenceGroup(const Row& row) : row_(row), nodes_(row) {}

  // Resets the group and returns the node of BOS. The tree's row must be empty.
  int32_t begin() {
    nodes_.clear();
    staged_.clear();  // another query may have these slots now
    return nodes_.add(TokenTree::kNone, row_.bos());
  }
  // The node of a token after `parent`, added if it is new.
  int32_t child_or_new(int32_t parent, int32_t token_id) {
    return nodes_.child_or_new(parent, token_id);
  }
  // The node of a live sequence's last token, after advance().
  void grow(Sequence& sequence) {
    sequence.node = child_or_new(sequence.node, sequence.token_ids.back());
  }

  // Begins the next step: no node is staged for it.
  void unstage() {
    for (const int32_t slot : staged_) row_.tree->set_row(slot, TokenTree::kNone);
    staged_.clear();
  }
  // Stages a node whose parent is evaluated or staged. A repeated call has no effect.
  void stage(int32_t node) {
    if (row_of(node) != TokenTree::kNone) return;
    row_.tree->set_row(node, static_cast<int32_t>(staged_.size()));
    staged_.push_back(node);
  }
  // Stages the drafts after a node, except those at max_position; returns how many.
  int32_t stage(int32_t node, const DraftTree& drafts, int32_t max_position) {
    int32_t count = 0;
    drafts_ = &drafts;
    nodes_.place(node, drafts, max_position, placed_, [&](int32_t parent, int32_t token_id) {
      const int32_t slot = child_or_new(parent, token_id);
      stage(slot);
      ++count;
      return slot;
    });
    return count;
  }
  // The row of log-probs of a staged node; kNone of another one.
  int32_t row_of(int32_t node) const { return row_.tree->row(node); }
  size_t staged_count() const { return staged_.size(); }
  // Passes the staged nodes on to the tree, for the decoder.
  void submit() const {
    for (const int32_t slot : staged_) row_.tree->stage(row_.index, slot);
  }

  // Extends a sequence by the tokens that `choose(sequence, row)` returns (a Drawn), while they are
  // staged, or by another rule, for one sequence.
  template <typename Choose>
  Verdict advance(Sequence& sequence, const float* log_probs, int32_t vocab_size,
                  int32_t max_length, const Choose& choose, const Rule& rule = {});
  // Frees all nodes except the paths to `nodes` and, with `and_after`, the nodes after them.
  void keep(const std::vector<int32_t>& nodes, bool and_after) {
    kept_.clear();
    for (const int32_t node : nodes) {
      kept_.push_back(first_entry(node));
      kept_.back().finished = !and_after;
    }
    nodes_.collect(kept_);
  }

 private:
  template <typename Choose>
  class Team;

  Row row_;
  BeamNodes nodes_;
  Beam kept_;                          // scratch
  std::vector<int32_t> staged_;        // slots
  const DraftTree* drafts_ = nullptr;  // staged last
  std::vector<int32_t> placed_;        // their slots
};

// The team of rules/argmax.h and rules/relaxed.h: one thread. A node is kLastToken, or the row of a
// staged node plus 1.
template <typename Choose>
class SequenceGroup::Team {
 public:
  Team(const SequenceGroup& group, Sequence& sequence, const float* log_probs, int32_t vocab_size,
       const Choose& choose)
      : group_(group),
        sequence_(sequence),
        log_probs_(log_probs),
        vocab_size_(vocab_size),
        choose_(choose),
        first_(group.row_of(sequence.node)) {}

  Drawn likeliest(int32_t node) const { return choose_(sequence_, log_probs(node)); }
  int32_t drafted(int32_t node, int32_t token_id) const {
    const int32_t child = group_.row_.tree->child(slot(node), token_id);
    if (child == TokenTree::kNone) return kLastToken;
    return group_.row_of(child) + 1;  // kLastToken where it is not staged
  }
  double nth_log_prob(int32_t node, int32_t n) const {
    std::vector<float> best(static_cast<size_t>(std::min(n, vocab_size_)));
    const float* row = log_probs(node);
    std::partial_sort_copy(row, row + vocab_size_, best.begin(), best.end(), std::greater<>());
    return best.back();
  }
  template <typename Take>
  void drafts(int32_t node, const Take& take) const {
    const DraftTree& drafts = *group_.drafts_;
    for (int32_t i = 0; i < drafts.size(); ++i) {
      const int32_t placed = group_.placed_[i], token_id = drafts.token_ids[i];
      if (placed == TokenTree::kNone || group_.row_.tree->parent(placed) != slot(node)) continue;
      const float own = drafts.log_prob(i) - drafts.log_prob(drafts.parents[i]);
      take(group_.row_of(placed) + 1, token_id, log_probs(node)[token_id], own);
    }
  }
  void keep(int32_t node, int32_t /*count*/) const { sequence_.rows.push_back(row(node)); }
  void write(int32_t /*place*/, int32_t token_id) const { sequence_.token_ids.push_back(token_id); }

 private:
  int32_t row(int32_t node) const { return node == kLastToken ? first_ : node - 1; }
  int32_t slot(int32_t node) const { return group_.staged_[row(node)]; }
  const float* log_probs(int32_t node) const {
    return log_probs_ + int64_t{row(node)} * vocab_size_;
  }

  const SequenceGroup& group_;
  Sequence& sequence_;
  const float* log_probs_;
  int32_t vocab_size_;
  const Choose& choose_;
  int32_t first_;
};

template <typename Choose>
Verdict SequenceGroup::advance(Sequence& sequence, const float* log_probs, int32_t vocab_size,
                               int32_t max_length, const Choose& choose, const Rule& rule) {
  sequence.rows.clear();
  const Team<Choose> team(*this, sequence, log_probs, vocab_size, choose);
  const auto accept_by = [&](const auto& its) {
    return accept(team, its, row_.eos(), max_length, sequence);
  };
  const Verdict verdict = std::visit(accept_by, rule);
  sequence.live = verdict == Verdict::kContinues;
  if (verdict != Verdict::kNoNumbers) sequence.node = staged_[sequence.rows.back()];
  return verdict;
}

}  // namespace molspec
