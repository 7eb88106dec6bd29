// Beam search, exact: the n best of standard beam search, with or without looking ahead.
//
// A round is plan() -> one decoder_step over staged() -> advance().
// - Standard: plan stages the live hypotheses' last tokens, advance takes one step.
// - "Lookahead and replay": plan also runs the beam recurrence ahead on a guess of the
//   distributions that are not known yet and stages what would be live there; advance replays
//   standard beam search on true distributions for as many steps as they are known. Every replayed
//   step used exactly what beam search uses, so sequences, log-probs and order are the same, to the
//   bit where a node's distribution does not depend on the other nodes.
//
// Hypotheses rank by score (log_prob / length^length_penalty), ties as in ops/candidate.h.
// A finished one stays in the beam and competes, and a query is done once no live one is left; or,
// with finished_apart, it leaves for a list of beam_size finished ones and the beam is filled up,
// and a query is done once the best live one scores no better than the last of a full list.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "search/beam_entries.h"

namespace molspec {

struct BeamOptions : ListOptions {
  bool finished_apart;  // as `generate` of Hugging Face keeps them
  // Looking ahead: 0 steps make standard beam search.
  int32_t lookahead_steps;
  int32_t node_budget;  // drafted nodes a query and pass
  // A node must pay for its row: what is less likely to be needed is not drafted.
  float min_confidence;
};

// Throws std::invalid_argument, naming the option, where one makes no sense.
void check(const BeamOptions& options);

class BeamSearch {
 public:
  BeamSearch(const BeamOptions& options, std::shared_ptr<const GuessModel> guess_model,
             int32_t query_count);

  void start(int32_t query, const std::vector<int32_t>& source_ids);
  void plan();
  void advance(const float* log_probs, int32_t vocab_size, std::vector<Decoded>& done);

  const BeamOptions& options() const { return options_; }
  const std::shared_ptr<const GuessModel>& guess_model() const { return guess_model_; }
  const TokenTree& tree() const { return tree_; }
  const TokenRoles& roles() const { return guess_model_->roles(); }
  int32_t live_count() const { return live_count_; }

 private:
  // What is known of a node beside its place in the tree.
  struct Known {
    bool evaluated = false;
    bool drafted = false;            // staged by looking ahead
    bool planned = false;            // to be staged, not yet at its place
    bool guessed = false;            // guesses and guess_state are there
    std::vector<Candidate> best;     // the model's likeliest tokens; none where it has no numbers
    std::vector<Candidate> guesses;  // the guess's
    GuessState guess_state;
  };

  struct Query {
    bool live = false;
    std::optional<Guess> guess;
    Beam beam;
    Beam finished;  // apart; best first
    BeamNodes nodes;
    int32_t staged_count = 0;
    Decoded decoded;
  };

  Known& known(int32_t slot) { return known_[static_cast<size_t>(slot)]; }
  double score(double log_prob, int32_t length) const;
  double score(const BeamEntry& entry) const { return score(entry.log_prob, entry.length); }
  int32_t candidate_count() const;
  int32_t child_or_new(int32_t index, Query& query, int32_t parent, int32_t token_id);

  void look_ahead(int32_t index, Query& query);
  void stage_planned(int32_t index);
  void stage(int32_t index, int32_t slot);
  const std::vector<Candidate>& guesses(Query& query, int32_t slot);

  bool live(const Query& query) const;
  bool replay_step(int32_t index, Query& query);  // false where a distribution that is needed lacks
  bool is_missing(const BeamEntry& entry) const;
  bool is_numberless(const BeamEntry& entry) const;
  bool may_matter(const BeamEntry& entry) const;
  void choose(Query& query, const Beam& beam, bool guessing);
  void extend(int32_t index, Query& query, Beam& beam, Beam* finished);
  void keep_finished(Beam& finished, const BeamEntry& entry) const;
  void finish(int32_t index, Query& query, std::vector<Decoded>& done);

  BeamOptions options_;
  std::shared_ptr<const GuessModel> guess_model_;
  TokenTree tree_;
  std::vector<Known> known_;  // by slot
  std::vector<Query> queries_;
  std::vector<int32_t> planned_;  // slots of one query
  std::vector<int32_t> staged_slots_;
  int32_t live_count_ = 0;
  // Scratch.
  std::vector<BeamChoice> choices_;
  Beam ahead_, next_;
};

}  // namespace molspec
