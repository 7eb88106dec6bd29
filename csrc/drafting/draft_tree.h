// Drafts as a tree of tokens: drafts share the nodes of common prefixes; each node is a decoder
// row.

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
  std::vector<float> log_probs;  // guessed, that the model confirms the path up to the node
  // Of a chain of drawn tokens: the distributions that they were drawn from, [node, vocab].
  // Otherwise empty.
  std::vector<double> drawn_from;

  int size() const { return static_cast<int>(token_ids.size()); }
  // The log-prob of a node; 0 for kRoot.
  float log_prob(int32_t node) const { return node == kRoot ? 0 : log_probs[node]; }
  // The distribution that a node was drawn from; nullptr if it was not drawn.
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

// A tree of an external drafter, checked once for a vocabulary and made fit for searches: without
// BOS, EOS, PAD and UNK and the nodes after them, and with equal siblings merged, which get the
// greater of their probabilities.
struct AdmittedTree : DraftTree {
  // Throws std::invalid_argument, naming the entry, for arrays of different sizes, an id outside
  // the vocabulary, a parent that is not before its child, a log-prob that is positive, NaN or
  // greater than its parent's; and for drawn_from of another size, of a tree that is not a chain,
  // or with invalid probabilities or probabilities of tokens that cannot be drafted.
  AdmittedTree(const DraftTree& proposed, const TokenRoles& roles);

  int32_t vocab_size;
  SpecialIds special;
};

// Copies trees to those that wait for them, in their order. Throws std::invalid_argument for
// another number of trees and for a tree of another vocabulary, before it changes any.
void fill(const std::vector<DraftTree*>& waiting, const std::vector<AdmittedTree>& proposed,
          const TokenRoles& roles);

struct TreeOptions {
  int node_budget;
  int max_depth;
  // Paths less likely than this are not drafted: their rows cost more than they save.
  float min_probability;
  // Every path of the tree costs its whole length: draft only while that pays (draft_ledger.h).
  bool whole_paths = false;

  bool operator==(const TreeOptions&) const = default;
  float min_log_prob() const { return std::log(min_probability); }
  void check() const {
    require(node_budget >= 1, "node_budget", node_budget, "at least 1");
    require(max_depth >= 1, "max_depth", max_depth, "at least 1");
    require(min_probability >= 0 && min_probability <= 1, "min_probability", min_probability,
            "at least 0 and at most 1");
  }
};

}  // namespace molspec
