// What beam searches on the host share: hypotheses by rank, and the nodes they stand on.

#pragma once

#include <cstdint>
#include <vector>

#include "drafting/guess.h"
#include "rules/beam.h"
#include "search/search.h"

namespace molspec {

using Beam = std::vector<BeamEntry>;  // by rank

// The entry of a query that begins.
inline BeamEntry first_entry(int32_t node) { return {0, node, 0, 0, 1, kNoToken, -1}; }

// Every node of one query, parents before children.
class BeamNodes {
 public:
  explicit BeamNodes(const Row& row) : tree_(row.tree), query_(row.index) {}

  // Forgets all of them: the tree's row is empty.
  void clear() { slots_.clear(); }
  int32_t add(int32_t parent, int32_t token_id) {
    slots_.push_back(tree_->add(query_, parent, token_id));
    return slots_.back();
  }
  // The node of a token after another.
  int32_t child_or_new(int32_t parent, int32_t token_id) {
    const int32_t child = tree_->child(parent, token_id);
    return child != TokenTree::kNone ? child : add(parent, token_id);
  }
  // Gives back one node: those after it must go too, before the next one is added.
  void remove(int32_t slot);
  // Gives back the nodes that no hypothesis of the beam has before it or after it.
  void collect(const Beam& beam);

 private:
  TokenTree* tree_;
  int32_t query_;
  std::vector<int32_t> slots_;
  std::vector<char> marks_;  // by slot
};

// What log-probs of so many tokens are divided by: length^length_penalty.
double length_norm(int32_t length, double length_penalty);
// log_prob, or log_prob / length_norm.
double beam_score(double log_prob, int32_t length, double length_penalty);

// The `count` most probable tokens of a row, the lower id first among equals. NaN is passed over; a
// row that begins with it, or whose greatest is infinite, has none.
void best_tokens(const float* log_probs, int32_t vocab_size, int32_t count,
                 std::vector<Candidate>& out);

// The first n_best of a beam with their tokens.
std::vector<Hypothesis> ranked_hypotheses(const TokenTree& tree, const Beam& beam, int32_t n_best);

}  // namespace molspec
