// Beam search, exact: the n best of standard beam search, with or without looking ahead.
//
// - Standard: plan stages the live hypotheses' last tokens, advance takes one step.
// - "Lookahead and replay": plan also runs the beam recurrence ahead on a guess of the
// distributions
//   that are not known yet and stages what would be live there; advance replays standard beam
//   search on true distributions for as many steps as they are known. Every replayed step used
//   exactly what beam search uses, so sequences, log-probs and order are the same, to the bit where
//   a node's distribution does not depend on the other nodes. Who guesses changes the time alone:
//   drafts from outside are guesses where there are such, the n-gram guess is the guess elsewhere.
//
// Hypotheses rank by score (log_prob / length^length_penalty), ties as in rules/candidate.h. The
// steps are those of rules/beam.h. A finished one stays in the beam and competes, and a query is
// done once no live one is left; or, with finished_apart, it leaves for a list of beam_size
// finished ones and the beam is filled up, and a query is done once the best live one scores no
// better than the last of a full list.

#pragma once

#include <cstdint>
#include <vector>

#include "rules/noise.h"
#include "search/beam_nodes.h"
#include "search/search.h"

namespace molspec {

// rules/beam.h: the lists of a query.
struct BeamLists {
  Beam beam, next, finished;
  std::vector<BeamChoice> choices;
  int32_t count = 0, next_count = 0, finished_count = 0;

  void fit(int32_t beam_size) {
    const auto size = static_cast<size_t>(beam_size);
    beam.resize(size);
    next.resize(size);
    finished.resize(size + 1);
  }
};

// How probable a path is: as it is drawn, and to the model itself.
struct PathLogProbs {
  double drawn = 0, own = 0;
};

// The same of a token after a path, and with its noise.
struct NoisyToken {
  int32_t token_id;
  double drawn_log_prob, noisy;
};

// What is known of nodes beside their places in the tree, by slot, for all beam searches of a
// batch; and their scratch memory.
class BeamNotes {
 public:
  struct Note {
    bool evaluated;
    bool drafted;               // staged by looking ahead
    bool planned;               // to be staged, not yet at its place
    bool followed;              // guess_state is there
    int64_t guessed, proposed;  // the round that guesses and the draft are of; 0: none
    const DraftTree* drafts;    // from outside, and the draft of them that the node is
    int32_t draft;
    std::vector<Candidate> best;     // the model's likeliest tokens; none where it has no numbers
    std::vector<Candidate> guesses;  // a guess's
    GuessState guess_state;
    // Of stochastic beams: what the path draws with, how probable it is, and the noise of `best`.
    Noise noise{0};
    PathLogProbs log_probs;
    std::vector<NoisyToken> noisy;
  };

  Note& operator[](int32_t slot) { return notes_[slot]; }
  // Nothing is known of a new node.
  void begin(int32_t slot) {
    if (notes_.size() <= static_cast<size_t>(slot)) notes_.resize(static_cast<size_t>(slot) + 1);
    Note& note = (*this)[slot];
    note.evaluated = note.drafted = note.planned = note.followed = false;
    note.guessed = note.proposed = 0;
  }

  BeamLists ahead;
  Beam kept;
  std::vector<int32_t> planned;

 private:
  std::vector<Note> notes_;
};

class BeamSearch : public Search {
 public:
  BeamSearch(const BeamSpec& spec, Row row);

  void begin(const std::vector<int32_t>& source_ids) override;
  void paths(std::vector<Path>& out) const override;
  void plan(const DraftTree* proposed) override;
  bool advance(const float* log_probs, int32_t vocab_size) override;

 protected:
  using Note = BeamNotes::Note;

  Note& note(int32_t slot) const { return (*row_.notes)[slot]; }
  double score(double log_prob, int32_t length) const {
    return beam_score(log_prob, length, spec_.length_penalty);
  }
  int32_t width() const { return candidate_count(spec_.beam_size, spec_.finished_apart); }
  const std::vector<Candidate>& guesses(int32_t slot);

  // The model's log-probs after a node have come; those after its parent had before.
  virtual void remember(int32_t slot, const float* log_probs, int32_t vocab_size);
  virtual void add_choices(BeamLists& lists, int32_t rank, bool guessed);
  // Of a live hypothesis, to the model.
  virtual double own_log_prob(const BeamEntry& entry) const { return entry.log_prob; }
  virtual void finish();

  BeamSpec spec_;
  BeamLists lists_;

 private:
  class Stepper;

  int32_t new_node(int32_t parent, int32_t token_id);
  void look_ahead();
  void stage_planned();
  void stage(int32_t slot);
  void follow(int32_t slot);
  void find_draft(int32_t slot);
  void blend_drafts(int32_t slot);

  // The best extensions of the beam into choices; how many.
  int32_t choose(BeamLists& lists, bool guessing);
  // Gives the next beam its nodes and makes it the beam.
  void settle(BeamLists& lists);
  void collect();

  Guess guess_;
  BeamNodes nodes_;
  std::vector<int32_t> staged_;  // slots
  int64_t round_ = 1;            // of guesses: one for all where none come from outside
};

// Of a spec with `sampling`.
std::unique_ptr<Search> stochastic_beam_search(const BeamSpec& spec, const Row& row);

}  // namespace molspec
