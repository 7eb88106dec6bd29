// A sequence that grows by its own choices, on nodes that it may share: two sequences of a query
// with the same tokens are one path of the tree and share their drafts. Each round verifies drafts
// as greedy decoding does (rules/argmax.h), or by the rule of a spec.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <variant>
#include <vector>

#include "search/query_nodes.h"
#include "search/search.h"

namespace molspec {

struct Sequence {
  std::vector<int32_t> token_ids;   // after BOS
  int32_t node = TokenTree::kNone;  // of the last token; after verify() the last evaluated one
  bool live = true;
  const DraftTree* drafts = nullptr;  // after it in this round
  std::vector<int32_t> placed;        // their slots; kNone of one that is not staged
  std::vector<int32_t> accepted;      // the staged nodes that it went through in this round
  // State that acceptance reads and updates.
  double log_prob = 0;
  int32_t finished = 0, token_count = 0, tolerated_tokens = 0;
  int64_t accepted_tokens = 0, emitted_tokens = 0;

  // After verify(): moves to the node of the last token.
  void grow(QueryNodes& nodes) { node = nodes.child_or_new(node, token_ids.back()); }
};

// The team of rules/argmax.h and rules/relaxed.h: one thread. A node is kLastToken, or a slot plus
// 1. `choose(sequence, row)` returns the token (a Drawn) that follows.
template <typename Choose>
class SequenceTeam {
 public:
  SequenceTeam(Sequence& sequence, const StepLogProbs& log_probs, const Choose& choose)
      : sequence_(sequence), log_probs_(log_probs), choose_(choose), first_(sequence.node) {}

  Drawn likeliest(int32_t node) const { return choose_(sequence_, log_probs_.after(slot(node))); }
  int32_t drafted(int32_t node, int32_t token_id) const {
    const int32_t child = log_probs_.tree().child(slot(node), token_id);
    const bool staged =
        child != TokenTree::kNone && log_probs_.tree().staged_index(child) != TokenTree::kNone;
    return staged ? child + 1 : kLastToken;
  }
  double nth_log_prob(int32_t node, int32_t n) const {
    std::vector<float> best(static_cast<size_t>(std::min(n, log_probs_.vocab_size())));
    const float* row = log_probs_.after(slot(node));
    std::partial_sort_copy(row, row + log_probs_.vocab_size(), best.begin(), best.end(),
                           std::greater<>());
    return best.back();
  }
  template <typename Take>
  void drafts(int32_t node, const Take& take) const {
    const DraftTree& drafts = *sequence_.drafts;
    for (int32_t i = 0; i < drafts.size(); ++i) {
      const int32_t placed = sequence_.placed[i], token_id = drafts.token_ids[i];
      if (placed == TokenTree::kNone || log_probs_.tree().parent(placed) != slot(node)) continue;
      const float own = drafts.log_prob(i) - drafts.log_prob(drafts.parents[i]);
      take(placed + 1, token_id, log_probs_.after(slot(node))[token_id], own);
    }
  }
  void keep(int32_t node, int32_t /*count*/) const { sequence_.accepted.push_back(slot(node)); }
  void write(int32_t /*place*/, int32_t token_id) const { sequence_.token_ids.push_back(token_id); }

 private:
  int32_t slot(int32_t node) const { return node == kLastToken ? first_ : node - 1; }

  Sequence& sequence_;
  const StepLogProbs& log_probs_;
  const Choose& choose_;
  int32_t first_;
};

// Extends a sequence by the tokens that `choose` returns, while they are staged; or, by relaxed
// verification, by staged ones that are nearly as probable.
template <typename Choose>
Verdict verify(Sequence& sequence, const StepLogProbs& log_probs, int32_t eos_id,
               int32_t max_length, const Choose& choose, const Rule& rule = {}) {
  sequence.accepted.clear();
  const SequenceTeam<Choose> team(sequence, log_probs, choose);
  const auto* relaxed = std::get_if<Relaxed>(&rule);
  const Verdict verdict = relaxed ? accept_relaxed(team, *relaxed, eos_id, max_length, sequence)
                                  : accept_argmax(team, eos_id, max_length, sequence);
  sequence.live = verdict == Verdict::kContinues;
  if (verdict != Verdict::kNoNumbers) sequence.node = sequence.accepted.back();
  return verdict;
}

}  // namespace molspec
