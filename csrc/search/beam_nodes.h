// Shared by the beam searches on the host: hypotheses by rank, and their nodes.

#pragma once

#include <cstdint>
#include <vector>

#include "drafting/guess.h"
#include "rules/beam.h"
#include "search/search.h"

namespace molspec {

using Beam = std::vector<BeamEntry>;  // by rank

// The first hypothesis of a query.
inline BeamEntry first_entry(int32_t node) { return {0, node, 0, 0, 1, kNoToken, -1}; }

// Every node of one query, parents before children.
class BeamNodes {
 public:
  explicit BeamNodes(const Row& row) : tree_(row.tree), query_(row.index) {}

  // Forgets all nodes. The tree's row must be empty.
  void clear() { slots_.clear(); }
  int32_t add(int32_t parent, int32_t token_id) {
    slots_.push_back(tree_->add(query_, parent, token_id));
    return slots_.back();
  }
  // The node of a token after `parent`, added if it is new.
  int32_t child_or_new(int32_t parent, int32_t token_id) {
    const int32_t child = tree_->child(parent, token_id);
    return child != TokenTree::kNone ? child : add(parent, token_id);
  }
  // Adds drafts after `node`, each by `add(parent, token_id)`, and writes their nodes to `placed`.
  // A draft at max_position is left out (kNone), with those after it: no token may follow it, so
  // its row would be wasted.
  template <typename Add>
  void place(int32_t node, const DraftTree& drafts, int32_t max_position,
             std::vector<int32_t>& placed, const Add& add) const {
    placed.assign(drafts.parents.size(), TokenTree::kNone);
    for (size_t i = 0; i < placed.size(); ++i) {
      const int32_t after = drafts.parents[i];
      const int32_t parent = after == DraftTree::kRoot ? node : placed[after];
      if (parent != TokenTree::kNone && tree_->position(parent) + 1 < max_position)
        placed[i] = add(parent, drafts.token_ids[i]);
    }
  }
  // Frees the nodes that are neither before nor after a hypothesis of the beam.
  void collect(const Beam& beam);

 private:
  TokenTree* tree_;
  int32_t query_;
  std::vector<int32_t> slots_;
};

// The divisor of the log-prob of `length` tokens: length^length_penalty.
double length_norm(int32_t length, double length_penalty);
// log_prob, or log_prob / length_norm.
double beam_score(double log_prob, int32_t length, double length_penalty);

// The `count` most probable tokens of a row, the lower id first among equals. NaN is skipped; a row
// that begins with NaN, or whose maximum is infinite, has none.
void best_tokens(const float* log_probs, int32_t vocab_size, int32_t count,
                 std::vector<Candidate>& out);

// A hypothesis with its tokens; the first n_best of a beam.
Hypothesis hypothesis(const TokenTree& tree, const BeamEntry& entry, double log_prob);
std::vector<Hypothesis> ranked_hypotheses(const TokenTree& tree, const Beam& beam, int32_t n_best);

}  // namespace molspec
