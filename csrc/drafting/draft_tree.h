// Drafts as a tree of tokens: shared prefixes once, a decoder row a node.

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/require.h"
#include "text/token_roles.h"

namespace molspec {

// Nodes after the last generated token. Parents precede children; siblings have distinct tokens;
// EOS is never a node: once the model emits it after a node, nothing follows.
struct DraftTree {
  static constexpr int32_t kRoot = -1;  // the parent of the first tokens: the last generated token
  static constexpr int32_t kNone = -2;  // no node

  std::vector<int32_t> token_ids;
  std::vector<int32_t> parents;
  std::vector<float> log_probs;  // that the model confirms the path up to the node, as guessed
  // Of a chain that was drawn at random, the probabilities that each node's token was drawn with:
  // [node, vocab]. Else empty.
  std::vector<double> drawn_from;

  int size() const { return static_cast<int>(token_ids.size()); }
  // Of a node or of kRoot, which is certain.
  float log_prob(int32_t node) const { return node == kRoot ? 0 : log_probs[node]; }
  // Of a node; nullptr where it was not drawn at random.
  const double* distribution(int32_t node, int32_t vocab_size) const {
    return drawn_from.empty() ? nullptr : drawn_from.data() + int64_t{node} * vocab_size;
  }
  // The node of a token after a node or kRoot, or kNone.
  int32_t child(int32_t node, int32_t token) const;
  void clear() {
    token_ids.clear();
    parents.clear();
    log_probs.clear();
    drawn_from.clear();
  }
  // Returns the new node's index.
  int32_t add(int32_t token, int32_t parent, float log_prob) {
    token_ids.push_back(token);
    parents.push_back(parent);
    log_probs.push_back(log_prob);
    return size() - 1;
  }
};

// A tree that comes from outside, as searches take it: what stands after BOS, EOS, PAD or UNK is
// left out with it, and a token that stands twice after a node stands there once, with the greater
// of its probabilities. Throws std::invalid_argument, naming the entry, for arrays of different
// sizes, an id outside of the vocabulary, a parent that does not stand before its child, a log-prob
// that is positive, no number or greater than its parent's; and for drawn_from of another size, of
// anything but a chain, or with probabilities that are none or of tokens that cannot be drafted.
DraftTree admitted(const DraftTree& proposed, const TokenRoles& roles);

struct TreeOptions {
  int node_budget;
  int max_depth;
  // A node must pay for its row: paths less likely than this are not drafted.
  float min_probability;

  float min_log_prob() const { return std::log(min_probability); }
  void check() const {
    require(node_budget >= 1, "node_budget", node_budget, "at least 1");
    require(max_depth >= 1, "max_depth", max_depth, "at least 1");
    require(min_probability >= 0 && min_probability < 1, "min_probability", min_probability,
            "at least 0 and less than 1");
  }
};

}  // namespace molspec
