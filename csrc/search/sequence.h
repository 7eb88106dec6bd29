// A sequence that grows by its rule, on nodes that it may share: two sequences of a query with the
// same tokens are one path of the tree and share their drafts.

#pragma once

#include <cstdint>
#include <vector>

#include "rules/accept.h"
#include "search/query_nodes.h"
#include "search/rule.h"
#include "search/search.h"

namespace molspec {

// `node` is that of the last token; after verify() the last evaluated one.
struct Sequence : Head {
  std::vector<int32_t> token_ids;  // after BOS
  std::vector<int32_t> accepted;   // the evaluated nodes that it went through in this round
  Rule rule;
  bool live = true;
  // State that acceptance reads and updates.
  int32_t finished = 0, token_count = 0, tolerated_tokens = 0;
  int64_t accepted_tokens = 0, emitted_tokens = 0;

  // After verify(): moves to the node of the last token.
  void grow(QueryNodes& nodes) { node = nodes.child_or_new(node, token_ids.back()); }
};

// The team of rules/accept.h: one thread. A node is kLastToken, or a slot plus 1.
struct SequenceTeam {
  Sequence& sequence;
  const StepLogProbs& log_probs;

  Drawn next(int32_t node) const {
    const auto length = static_cast<uint32_t>(sequence.token_ids.size());
    const Drawn next = sequence.rule(
        {log_probs.after(slot(node)), log_probs.vocab_size, length, sequence, slot(node)});
    sequence.tolerated_tokens += next.tolerated;
    return next;
  }
  int32_t drafted(int32_t node, int32_t token_id) const {
    const int32_t child = log_probs.tree.child(slot(node), token_id);
    const bool staged =
        child != TokenTree::kNone && log_probs.tree.staged_index(child) != TokenTree::kNone;
    return staged ? child + 1 : kLastToken;
  }
  void keep(int32_t node, int32_t /*count*/) const { sequence.accepted.push_back(slot(node)); }
  void write(int32_t /*index*/, int32_t token_id) const { sequence.token_ids.push_back(token_id); }

 private:
  int32_t slot(int32_t node) const { return node == kLastToken ? sequence.node : node - 1; }
};

// Extends a sequence by the tokens that its rule chooses, while they are staged.
inline Verdict verify(Sequence& sequence, const StepLogProbs& log_probs, const Stop& stop) {
  sequence.accepted.clear();
  const SequenceTeam team{sequence, log_probs};
  const Verdict verdict = accept(team, stop, sequence);
  sequence.live = verdict == Verdict::kContinues;
  if (verdict != Verdict::kNoNumbers) sequence.node = sequence.accepted.back();
  return verdict;
}

}  // namespace molspec
