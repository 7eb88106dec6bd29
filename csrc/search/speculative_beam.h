// Speculative beam search of Andronov et al., J. Cheminform. 2025, "Speculative beam search" (SBS).
// Approximate: a long accepted draft can evict hypotheses that beam search keeps. Without drafts it
// is standard beam search.
//
// Behind every hypothesis that goes on all drafts are scored. A draft token is accepted by
// rules/nucleus.h where the model has numbers for what follows it; the draft with most accepted
// tokens is kept, the first of equals. Its leaves: at each accepted position the likeliest tokens
// but the draft's own, after the last accepted token all of them. The best leaves of all
// hypotheses, of unequal lengths, are the next beam.
//
// Unlike the published code, a query's drafts and lists never depend on what else is in the batch,
// draft lengths below 5 are what they say, and hypotheses that reach max_length are reported.

#pragma once

#include <memory>
#include <vector>

#include "rules/nucleus.h"
#include "search/beam_nodes.h"
#include "search/search.h"

namespace molspec {

class SpeculativeBeamSearch final : public Search {
 public:
  SpeculativeBeamSearch(const SpeculativeBeamSpec& spec, Row row);

  void start(const std::vector<int32_t>& source_ids) override;
  void paths(std::vector<Path>& out) const override;
  void plan(const DraftTree* proposed) override;
  bool advance(const float* log_probs, int32_t vocab_size) override;

 private:
  // The staged nodes of one hypothesis: its last token, then its drafts.
  struct Staged {
    std::vector<int32_t> slots;
    std::vector<int32_t> parents;  // indices in slots
  };

  bool continues(const BeamEntry& entry) const { return entry.continues(spec_.max_length); }
  double score(double log_prob, int32_t length) const {
    return beam_score(log_prob, length, spec_.length_penalty);
  }
  // Whether the model's log-probs after a node, and after all last tokens, are numbers.
  static bool has_numbers(const float* row, int32_t vocab_size);
  bool has_numbers(const float* log_probs, int32_t vocab_size, const std::vector<Staged>& staged);
  void plan_hypothesis(const BeamEntry& entry, const DraftTree& drafts);
  // The accepted path as indices in staged.slots, from the last token on.
  void accept(const Staged& staged, const float* log_probs, int32_t vocab_size);
  void add_leaves(int32_t rank, const Staged& staged, const float* log_probs, int32_t vocab_size);
  void carry(int32_t rank);
  void select();

  SpeculativeBeamSpec spec_;
  std::unique_ptr<Drafter> drafter_;  // none where drafts come from outside
  Beam beam_, next_;
  BeamNodes nodes_;
  std::vector<Staged> staged_;  // by hypothesis that goes on
  // Scratch.
  DraftTree drafts_;
  std::vector<Leaf> leaves_;
  std::vector<Candidate> best_;
  std::vector<int32_t> path_, depths_;
};

}  // namespace molspec
