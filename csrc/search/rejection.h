// Rejection sampling: a draft is kept with the probability that makes what is kept, and what is
// drawn where nothing is, distributed as the model says. Leviathan, Kalman and Matias, ICML 2023,
// "Fast inference from transformers via speculative decoding", algorithm 1; of several drafts
// after one token Miao et al., ASPLOS 2024, "SpecInfer", algorithm 2.
//
// Unlike the argmax of noisy log-probs (rules/noise.h) the sample depends on what was drafted; its
// distribution does not.

#pragma once

#include <cstdint>
#include <vector>

#include "drafting/draft_tree.h"
#include "search/sampling.h"

namespace molspec {

// Chooses the tokens of one sample after the drafts of a round.
class Rejection {
 public:
  // left_out: tokens that are never drawn, where what is drawn is drafted for another model.
  Rejection(const Sampler& sampler, const DraftTree& drafts, const SpecialIds* left_out = nullptr)
      : sampler_(sampler), drafts_(drafts), left_out_(left_out) {}

  // The token after a path of `position` tokens, which ends with what the last call gave. Its
  // log-prob is the model's own: NaN where the model's are no numbers, and where most of the
  // probability is that of tokens that are left out.
  Drawn at(const float* log_probs, int32_t vocab_size, uint32_t position);

  // What the last token is distributed by: probabilities [vocab_size].
  const std::vector<double>& drawn_from() const { return drawn_from_; }

 private:
  bool read(const float* log_probs, int32_t vocab_size);
  bool keeps(int32_t draft, double evenly);
  int32_t draw(uint32_t position) const;

  const Sampler& sampler_;
  const DraftTree& drafts_;
  const SpecialIds* left_out_;
  int32_t node_ = DraftTree::kRoot;  // of the drafts; kNone where the sample has left them
  std::vector<Tempered> tokens_;     // scratch
  std::vector<double> drawn_from_;
  std::vector<double> left_;  // of it, where drafts were refused; not normalised
};

}  // namespace molspec
