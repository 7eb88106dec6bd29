// Rejection sampling: accepts a draft with such a probability, and draws such a token if it rejects
// all, that the result has the model's distribution. Leviathan, Kalman and Matias, ICML 2023,
// "Fast inference from transformers via speculative decoding", algorithm 1; for several drafts
// after one token Miao et al., ASPLOS 2024, "SpecInfer", algorithm 2.
//
// Unlike the argmax of noisy log-probs (rules/noise.h), the sample depends on the drafts; its
// distribution does not.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "drafting/draft_tree.h"
#include "search/sampling.h"

namespace molspec {

// Chooses the tokens of one sample after the drafts of a round.
class Rejection {
 public:
  // left_out: tokens that are never drawn, if the tokens are drafts for another model.
  Rejection(const Sampler& sampler, const DraftTree& drafts, const SpecialIds* left_out = nullptr)
      : sampler_(sampler), drafts_(drafts), left_out_(left_out) {}

  // The token after a path of `position` tokens, the last of which the previous call returned. Its
  // log-prob is the model's: NaN if the model's log-probs are not numbers, or if the tokens that
  // are left out have most of the probability.
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

  // The distribution of the last token: probabilities [vocab_size].
  const std::vector<double>& drawn_from() const { return drawn_from_; }

 private:
  // With less probability left, rounding would decide more than the model does.
  static constexpr double kLeast = 0.5;

  // Returns whether a token can be drawn.
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
  // Accepts a draft with probability min(1, p / q); otherwise subtracts q from the rest. A draft
  // without a distribution counts as certain to be drawn (q = 1).
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
  // The argmax of noisy log-probs, the lowest id among equals. If rounding left no probability, p
  // and q were equal, so the whole distribution serves.
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
  int32_t node_ = DraftTree::kRoot;  // of the drafts; kNone once the sample differs from them
  std::vector<Tempered> tokens_;     // scratch
  std::vector<double> drawn_from_;
  std::vector<double> left_;  // the rest of it after rejected drafts; not normalised
};

// Chooses the tokens of one path: the likeliest or, with a sampler, those that it draws or that
// rejection sampling does.
class Chooser {
 public:
  // left_out: see Rejection. noted: gets the distribution of each token that rejection draws.
  Chooser(const Sampler* sampler, const DraftTree& drafts, const SpecialIds* left_out = nullptr,
          DraftTree* noted = nullptr)
      : sampler_(sampler), noted_(noted) {
    if (sampler && sampler->sampling().rejection) rejection_.emplace(*sampler, drafts, left_out);
  }

  // As Rejection::at().
  Drawn at(const float* log_probs, int32_t vocab_size, size_t length) {
    const auto position = static_cast<uint32_t>(length);
    if (!sampler_) return likeliest(log_probs, vocab_size);
    if (!rejection_) return sampler_->at(log_probs, vocab_size, position);
    const Drawn drawn = rejection_->at(log_probs, vocab_size, position);
    if (noted_ && drawn.log_prob == drawn.log_prob)
      noted_->drawn_from.insert(noted_->drawn_from.end(), rejection_->drawn_from().begin(),
                                rejection_->drawn_from().end());
    return drawn;
  }

 private:
  const Sampler* sampler_;
  DraftTree* noted_;
  std::optional<Rejection> rejection_;
};

}  // namespace molspec
