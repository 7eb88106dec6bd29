// Exact beam search: the n best of standard beam search, with or without lookahead.
//
// - Standard: stage() takes the live hypotheses' last tokens, accept() one step.
// - Lookahead and replay: stage() also runs beam search ahead on guessed distributions and takes
//   the nodes that would be live there; accept() then replays standard beam search for as many
//   steps as the true distributions are known. A replayed step uses the same values as beam search,
//   so sequences, log-probs and order are the same, to the bit if a node's distribution does not
//   depend on the other nodes. Guesses only affect the time: they come from an external drafter if
//   there is one, and otherwise, as beyond its drafts, from the n-gram model.
//
// Hypotheses rank by score (log_prob / length^length_penalty), ties as in rules/candidate.h. The
// steps are those of rules/beam.h. A finished hypothesis stays in the beam and competes; the query
// is done when no live one is left. With finished_apart it moves to a list of beam_size finished
// ones and the beam is filled up; the query is done when the list is full and the best live
// hypothesis scores no better than the last of the list.

#pragma once

#include <cstdint>
#include <vector>

#include "search/ranking.h"

namespace molspec {

using Beam = std::vector<BeamEntry>;  // by rank

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

// Data of nodes by slot, for all beam searches of a batch; and their scratch memory.
class BeamNotes {
 public:
  struct Note {
    bool evaluated;
    bool drafted;               // chosen by the lookahead
    bool planned;               // chosen for the next step, not staged yet
    bool followed;              // guess_state is valid
    int64_t guessed, proposed;  // the rounds of `guesses` and of `drafts`; 0: none
    const DraftTree* drafts;    // of the external drafter, and the node's index in it
    int32_t draft;
    std::vector<Candidate> best;     // the model's likeliest tokens; empty if it has no numbers
    std::vector<Candidate> guesses;  // the guessed likeliest tokens
    GuessState guess_state;
  };

  Note& operator[](int32_t slot) { return notes_[slot]; }
  // Resets the data of a new node.
  void begin(int32_t slot) {
    if (notes_.size() <= static_cast<size_t>(slot)) notes_.resize(static_cast<size_t>(slot) + 1);
    Note& note = (*this)[slot];
    note.evaluated = note.drafted = note.planned = note.followed = false;
    note.guessed = note.proposed = 0;
  }

  BeamLists ahead;
  std::vector<QueryNodes::Kept> kept;
  std::vector<int32_t> planned;

 private:
  std::vector<Note> notes_;
};

class BeamSearch final : public Search {
 public:
  BeamSearch(const BeamSpec& spec, const Row& row);

 private:
  using Note = BeamNotes::Note;
  struct Stepper;

  void begin(const std::vector<int32_t>& source_ids) override;
  void heads(std::vector<Head*>& out) override;
  int32_t stage() override;
  bool accept(const StepLogProbs& log_probs) override;
  void set_log_prob(double log_prob) override { lists_.beam.front().log_prob = log_prob; }

  Note& note(int32_t slot) const { return (*row_.notes)[slot]; }
  double score(double log_prob, int32_t length) const {
    return beam_score(log_prob, length, spec_.length_penalty);
  }
  int32_t width() const { return candidate_count(spec_.beam_size, spec_.finished_apart); }
  const std::vector<Candidate>& guesses(int32_t slot);
  void look_ahead();
  void stage_planned();
  void stage_with_planned(int32_t slot);
  void follow(int32_t slot);
  void find_draft(int32_t slot);
  void blend_drafts(int32_t slot);

  // Writes the best extensions of the beam to `choices` and returns how many.
  int32_t choose(BeamLists& lists, bool guessing);
  void add_choices(BeamLists& lists, int32_t rank, bool guessed);
  // Adds the nodes of the next beam and makes it the beam.
  void settle(BeamLists& lists);
  void keep();

  BeamSpec spec_;
  BeamLists lists_;
  Guess guess_;
  std::vector<Head> waiting_;    // the hypotheses that an external drafter extends
  std::vector<int32_t> staged_;  // slots
  int64_t round_ = 1;            // of guesses; it only advances with an external drafter
};

}  // namespace molspec
