// Greedy decoding, speculative or not: Andronov et al., J. Cheminform. 2025, "Speculative greedy
// decoding", with drafts merged into one tree.
//
// Lossless (rules/argmax.h) but where relaxed verification is requested (rules/relaxed.h).
//
// Each round verifies the drafts after the last emitted token; the accepted ones and the model's
// next token are emitted.

#pragma once

#include <memory>
#include <vector>

#include "search/search.h"

namespace molspec {

class GreedySearch final : public Search {
 public:
  GreedySearch(const GreedySpec& spec, Row row);

  void start(const std::vector<int32_t>& source_ids) override;
  void paths(std::vector<Path>& out) const override;
  void plan(const DraftTree* proposed) override;
  bool advance(const float* log_probs, int32_t vocab_size) override;

 private:
  class Team;
  // What acceptance goes on with.
  struct Answer {
    double log_prob = 0;
    int32_t finished = 0, token_count = 0;
    int64_t accepted_tokens = 0, emitted_tokens = 0;
    int32_t tolerated_tokens = 0;
  };
  void note_drafts(const DraftTree& drafts);
  void finish(bool numbers);
  // Gives back the drafts that are not on path_ and puts the last emitted token after it.
  void keep_path();

  GreedySpec spec_;
  std::unique_ptr<Drafter> drafter_;  // none where drafts come from outside
  Answer answer_;
  std::vector<int32_t> token_ids_;  // emitted
  // Staged: the last emitted token, then the drafts after it; parents as indices in slots_.
  std::vector<int32_t> slots_, parents_;
  std::vector<float> own_;     // by staged draft: its log-prob after its parent, to its drafter
  std::vector<int32_t> path_;  // evaluated nodes that the model confirmed, as indices in slots_
  DraftTree drafts_;
};

}  // namespace molspec
