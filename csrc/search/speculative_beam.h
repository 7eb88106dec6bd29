// Speculative beam search of Andronov et al., J. Cheminform. 2025, "Speculative beam search" (SBS).
// Approximate: a long accepted draft can evict hypotheses that beam search keeps. Without drafts it
// is standard beam search.
//
// A round is plan() -> one decoder_step over staged() -> advance(). Behind every live hypothesis
// all drafts are scored. A draft token is accepted if it is among the beam_size likeliest at its
// position, the tokens likelier than it have less probability than `nucleus` and the model has
// numbers for what follows it; the draft with most accepted tokens is kept, the first of equals.
// Its leaves: at each accepted position the likeliest tokens but the draft's own, behind the last
// accepted token all of them. The best leaves of all hypotheses, of unequal lengths, are the next
// beam.
//
// Unlike the published code, a query's drafts and lists never depend on what else is in the batch,
// draft lengths below 5 are what they say, and hypotheses that reach max_length are reported.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "drafting/windows.h"
#include "search/beam_entries.h"

namespace molspec {

struct SpeculativeBeamOptions : ListOptions {
  float nucleus;
};

class SpeculativeBeamSearch {
 public:
  // No windows: no drafts (D = 0). Throws std::invalid_argument where an option makes no sense.
  SpeculativeBeamSearch(const SpeculativeBeamOptions& options, std::optional<WindowOptions> windows,
                        std::shared_ptr<const GuessModel> guess_model, int32_t query_count);

  void start(int32_t query, const std::vector<int32_t>& source_ids);
  void plan();
  void advance(const float* log_probs, int32_t vocab_size, std::vector<Decoded>& done);

  const SpeculativeBeamOptions& options() const { return options_; }
  const std::optional<WindowOptions>& windows() const { return windows_; }
  const std::shared_ptr<const GuessModel>& guess_model() const { return guess_model_; }
  const TokenTree& tree() const { return tree_; }
  const TokenRoles& roles() const { return guess_model_->roles(); }
  int32_t live_count() const { return live_count_; }

 private:
  // The staged nodes of one hypothesis: its last token, then its drafts.
  struct Staged {
    std::vector<int32_t> slots;
    std::vector<int32_t> parents;  // indices in slots
  };
  struct Query {
    bool live = false;
    std::optional<SourceWindows> windows;
    Beam beam;
    BeamNodes nodes;
    std::vector<Staged> staged;  // by live hypothesis
    Decoded decoded;
  };

  bool is_open(const BeamEntry& entry) const;
  // Whether the model's log-probs behind a node, and behind all last tokens, are numbers.
  static bool has_numbers(const float* row, int32_t vocab_size);
  static bool has_numbers(const Query& query, const float* log_probs, int32_t vocab_size);
  void plan_hypothesis(int32_t index, Query& query, const BeamEntry& entry);
  // The accepted path as indices in staged.slots, from the last token on.
  void accept(const Staged& staged, const float* log_probs, int32_t vocab_size);
  bool is_accepted(int32_t token_id, const float* row, int32_t vocab_size);
  void add_leaves(const BeamEntry& entry, int32_t rank, const Staged& staged,
                  const float* log_probs, int32_t vocab_size);
  void carry(const BeamEntry& entry, int32_t rank);
  void select(int32_t index, Query& query);

  SpeculativeBeamOptions options_;
  std::optional<WindowOptions> windows_;
  const DraftTree no_drafts_;
  std::shared_ptr<const GuessModel> guess_model_;
  TokenTree tree_;
  std::vector<Query> queries_;
  int32_t live_count_ = 0;
  // Scratch.
  std::vector<BeamChoice> choices_;
  std::vector<Candidate> best_;
  std::vector<int32_t> path_, depths_;
  Beam next_;
};

}  // namespace molspec
