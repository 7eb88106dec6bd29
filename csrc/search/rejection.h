// Rejection sampling: a draft is kept with the probability that makes what is kept, and what is
// drawn where nothing is, distributed as the model says. Leviathan, Kalman and Matias, ICML 2023,
// "Fast inference from transformers via speculative decoding", algorithm 1; of several drafts
// after one token Miao et al., ASPLOS 2024, "SpecInfer", algorithm 2.
//
// Unlike the argmax of noisy log-probs (rules/noise.h) the sample depends on what was drafted; its
// distribution does not.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
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
  Drawn at(const float* log_probs, int32_t vocab_size, uint32_t position) {
    if (!read(log_probs, vocab_size)) return {0, std::numeric_limits<float>::quiet_NaN()};
    left_ = drawn_from_;
    const Noise noise = sampler_.noise().of_verification();
    int32_t token = -1;
    uint32_t place = 0;
    for (int32_t draft = node_ + 1; node_ != DraftTree::kNone && draft < drafts_.size(); ++draft) {
      if (drafts_.parents[draft] != node_) continue;
      if (!keeps(draft, noise.even(position, place++))) continue;
      token = drafts_.token_ids[draft];
      break;
    }
    if (token < 0) token = draw(position);
    if (node_ != DraftTree::kNone) node_ = drafts_.child(node_, token);
    return {token, log_probs[token]};
  }

  // What the last token is distributed by: probabilities [vocab_size].
  const std::vector<double>& drawn_from() const { return drawn_from_; }

 private:
  // With less probability left, what is drawn says more of rounding than of the model.
  static constexpr double kLeast = 0.5;

  // False where nothing can be drawn.
  bool read(const float* log_probs, int32_t vocab_size) {
    tempered(log_probs, vocab_size, sampler_.sampling(), tokens_);
    if (tokens_.empty()) return false;
    drawn_from_.assign(static_cast<size_t>(vocab_size), 0);
    for (const Tempered& token : tokens_)
      if (!left_out_ || !left_out_->holds(token.token_id))
        drawn_from_[token.token_id] = fixed_exp(token.drawn_log_prob);
    if (!left_out_) return true;
    const double total = std::accumulate(drawn_from_.begin(), drawn_from_.end(), 0.0);
    if (total < kLeast) return false;
    for (double& probability : drawn_from_) probability /= total;
    return true;
  }
  // Keeps a draft with min(1, p / q); takes q off what is left otherwise. A draft that says nothing
  // of what it was drawn from is certain to have been drawn.
  bool keeps(int32_t draft, double evenly) {
    const int32_t token = drafts_.token_ids[draft];
    const double* from = drafts_.distribution(draft, static_cast<int32_t>(left_.size()));
    const double total = std::accumulate(left_.begin(), left_.end(), 0.0);
    const double own = from ? from[token] : 1;
    if (evenly * own * total < left_[token]) return true;
    if (!from) {
      left_[token] = 0;
      return false;
    }
    for (size_t i = 0; i < left_.size(); ++i) left_[i] = std::max(left_[i] - total * from[i], 0.0);
    return false;
  }
  // The greatest of noisy log-probs, the lowest id among equals. Where rounding has left nothing,
  // all that could be refused was as probable as its draft: nothing changes.
  int32_t draw(uint32_t position) const {
    const bool any =
        std::any_of(left_.begin(), left_.end(), [](double value) { return value > 0; });
    const std::vector<double>& from = any ? left_ : drawn_from_;
    int32_t token = 0;
    double best = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < from.size(); ++i) {
      if (!(from[i] >= std::numeric_limits<double>::min())) continue;
      const auto id = static_cast<uint32_t>(i);
      const double noisy = fixed_log(from[i]) + sampler_.noise().gumbel(position, id);
      if (!(noisy > best)) continue;
      best = noisy;
      token = static_cast<int32_t>(i);
    }
    return token;
  }

  const Sampler& sampler_;
  const DraftTree& drafts_;
  const SpecialIds* left_out_;
  int32_t node_ = DraftTree::kRoot;  // of the drafts; kNone where the sample has left them
  std::vector<Tempered> tokens_;     // scratch
  std::vector<double> drawn_from_;
  std::vector<double> left_;  // of it, where drafts were refused; not normalised
};

}  // namespace molspec
