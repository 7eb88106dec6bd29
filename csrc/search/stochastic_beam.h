// Stochastic beam search: Kool, van Hoof and Welling, ICML 2019, "Stochastic beams and where to
// find them". Beam search whose scores are log-probs with Gumbel noise gives samples that all
// differ, as if they were drawn one after the other without replacement.
//
// A hypothesis' noise is the greatest of all sequences that begin with it: the noise of its
// extensions is drawn on the condition that their greatest is the hypothesis' own. So an extension
// never ranks above its hypothesis, which is all that exact replay asks of scores (rules/beam.h): a
// guess with the same noise looks ahead. One more than the samples is kept, whose score tells how
// probably each of them was among them.
//
// In its lists BeamEntry::log_prob is the noisy one; the path's own are in BeamNotes.

#pragma once

#include "search/beam.h"

namespace molspec {

class StochasticBeamSearch final : public BeamSearch {
 public:
  StochasticBeamSearch(const StochasticBeamSpec& spec, Row row)
      : BeamSearch(spec, std::move(row)), sampling_(spec.sampling) {}

  void start(const std::vector<int32_t>& source_ids) override;

 private:
  void remember(int32_t slot, const float* log_probs, int32_t vocab_size) override;
  void add_choices(BeamLists& lists, int32_t rank, bool guessed) override;
  double own_log_prob(const BeamEntry& entry) const override;
  void finish() override;

  Noise of_query() const { return Noise::of(sampling_.seed, query_key_).after(0, 1); }
  Noise noise(int32_t slot) const;
  // Of the path with a token after an evaluated node, one of its best.
  PathLogProbs after(int32_t slot, int32_t token_id) const;
  // Of the path to a node; guessed where it, and nodes before it, are not evaluated.
  double drawn_log_prob(int32_t slot);
  void guess(int32_t slot);

  Sampling sampling_;
  std::vector<Tempered> tempered_;  // scratch
};

}  // namespace molspec
