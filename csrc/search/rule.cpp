#include "search/rule.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace molspec {

int32_t Fork::draft() const {
  if (slot == head.node) return DraftTree::kRoot;
  const auto found = std::find(head.slots.begin(), head.slots.end(), slot);
  return found == head.slots.end() ? DraftTree::kNone
                                   : static_cast<int32_t>(found - head.slots.begin());
}

namespace {

Drawn argmax(const Fork& fork) { return likeliest(fork.log_probs, fork.vocab_size); }

// The n-th greatest log-prob.
double nth_log_prob(const Fork& fork, int32_t n) {
  std::vector<float> best(static_cast<size_t>(std::min(n, fork.vocab_size)));
  std::partial_sort_copy(fork.log_probs, fork.log_probs + fork.vocab_size, best.begin(), best.end(),
                         std::greater<>());
  return best.back();
}

// The likeliest tolerated draft, unless the argmax was drafted.
Drawn relaxed(const Relaxed& options, const Fork& fork) {
  const Drawn best = argmax(fork);
  const DraftTree& drafts = fork.head.drafts;
  const int32_t after = fork.draft();
  std::vector<int32_t> staged;
  for (int32_t i = 0; i < drafts.size(); ++i)
    if (drafts.parents[i] == after && fork.head.slots[i] != TokenTree::kNone) staged.push_back(i);
  for (const int32_t i : staged)
    if (drafts.token_ids[i] == best.token_id) return best;
  Drawn next = best;
  const double nth = nth_log_prob(fork, options.beta);
  for (const int32_t i : staged) {
    const Drawn draft{drafts.token_ids[i], fork.log_probs[drafts.token_ids[i]], true};
    const float own = drafts.log_prob(i) - drafts.log_prob(after);
    const double judged = options.judged_by_drafter ? own : draft.log_prob;
    const bool is_better = !next.tolerated || draft.log_prob > next.log_prob;
    if (is_better && judged >= nth && best.log_prob - judged <= options.tau) next = draft;
  }
  return next;
}

// Rejection sampling: accepts a draft with such a probability, and draws such a token if it rejects
// all, that the result has the model's distribution. Leviathan, Kalman and Matias, ICML 2023,
// "Fast inference from transformers via speculative decoding", algorithm 1; for several drafts
// after one token Miao et al., ASPLOS 2024, "SpecInfer", algorithm 2.
//
// Unlike with noise, the sample depends on the drafts; its distribution does not.
class Rejection {
 public:
  Rejection(const Sampler& sampler, const SpecialIds* left_out, DraftTree* noted)
      : sampler_(sampler), left_out_(left_out), noted_(noted) {}

  // NaN also if the tokens that are left out have most of the probability.
  Drawn operator()(const Fork& fork) {
    if (!read(fork)) return {0, std::numeric_limits<float>::quiet_NaN()};
    if (noted_)
      noted_->drawn_from.insert(noted_->drawn_from.end(), drawn_from_.begin(), drawn_from_.end());
    left_ = drawn_from_;
    const Noise noise = sampler_.noise().of_verification();
    const DraftTree& drafts = fork.head.drafts;
    const int32_t after = fork.draft();
    uint32_t tried = 0;
    for (int32_t draft = after + 1; after != DraftTree::kNone && draft < drafts.size(); ++draft) {
      if (drafts.parents[draft] != after) continue;
      if (!keeps(drafts, draft, noise.even(fork.length, tried++))) continue;
      return {drafts.token_ids[draft], fork.log_probs[drafts.token_ids[draft]]};
    }
    const int32_t token = draw(fork.length);
    return {token, fork.log_probs[token]};
  }

 private:
  // With less probability left, rounding would decide more than the model does.
  static constexpr double kLeast = 0.5;

  // Returns whether a token can be drawn.
  bool read(const Fork& fork) {
    tempered(fork.log_probs, fork.vocab_size, sampler_.sampling(), tokens_);
    if (tokens_.empty()) return false;
    drawn_from_.assign(static_cast<size_t>(fork.vocab_size), 0);
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
  bool keeps(const DraftTree& drafts, int32_t draft, double evenly) {
    const int32_t token = drafts.token_ids[draft];
    const double* from = drafts.distribution(draft, static_cast<int32_t>(left_.size()));
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
    const bool any = std::ranges::any_of(left_, [](double value) { return value > 0; });
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

  Sampler sampler_;
  const SpecialIds* left_out_;    // null if the tokens are answers
  DraftTree* noted_;              // the same
  std::vector<Tempered> tokens_;  // scratch
  std::vector<double> drawn_from_;
  std::vector<double> left_;  // the rest of it after rejected drafts; not normalised
};

// The argmax of noisy log-probs (rules/noise.h), which the seed alone decides; or rejection
// sampling.
Rule sampling_rule(const Sampler& sampler, const SpecialIds* left_out, DraftTree* noted) {
  if (sampler.sampling().rejection) return Rejection(sampler, left_out, noted);
  return [sampler](const Fork& fork) {
    return sampler.at(fork.log_probs, fork.vocab_size, fork.length);
  };
}

}  // namespace

Rule rule_of(const RuleOptions& options, const std::optional<Sampler>& sampler) {
  if (sampler) return sampling_rule(*sampler, nullptr, nullptr);
  if (const auto* its = std::get_if<Relaxed>(&options)) return std::bind_front(relaxed, *its);
  return argmax;
}

Rule drafting_rule(const std::optional<Sampler>& sampler, const SpecialIds& left_out,
                   DraftTree& drafts) {
  return sampler ? sampling_rule(*sampler, &left_out, &drafts) : Rule(argmax);
}

}  // namespace molspec
