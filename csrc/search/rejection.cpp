#include "search/rejection.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace molspec {
namespace {

// With less probability left, what is drawn says more of rounding than of the model.
constexpr double kLeast = 0.5;

}  // namespace

Drawn Rejection::at(const float* log_probs, int32_t vocab_size, uint32_t position) {
  if (!read(log_probs, vocab_size)) return {0, std::numeric_limits<float>::quiet_NaN()};
  left_ = drawn_from_;
  const Noise noise = sampler_.noise().of_verification();
  int32_t token = -1;
  uint32_t place = 0;
  for (int32_t draft = node_ + 1; node_ != DraftTree::kNone && draft < drafts_.size(); ++draft) {
    if (drafts_.parents[static_cast<size_t>(draft)] != node_) continue;
    if (!keeps(draft, noise.even(position, place++))) continue;
    token = drafts_.token_ids[static_cast<size_t>(draft)];
    break;
  }
  if (token < 0) token = draw(position);
  if (node_ != DraftTree::kNone) node_ = drafts_.child(node_, token);
  return {token, log_probs[token]};
}

// False where nothing can be drawn.
bool Rejection::read(const float* log_probs, int32_t vocab_size) {
  tempered(log_probs, vocab_size, sampler_.sampling(), tokens_);
  if (tokens_.empty()) return false;
  drawn_from_.assign(static_cast<size_t>(vocab_size), 0);
  for (const Tempered& token : tokens_)
    if (!left_out_ || !left_out_->holds(token.token_id))
      drawn_from_[static_cast<size_t>(token.token_id)] = fixed_exp(token.drawn_log_prob);
  if (!left_out_) return true;
  const double total = std::accumulate(drawn_from_.begin(), drawn_from_.end(), 0.0);
  if (total < kLeast) return false;
  for (double& probability : drawn_from_) probability /= total;
  return true;
}

// Keeps a draft with min(1, p / q); takes q off what is left otherwise. A draft that says nothing
// of what it was drawn from is certain to have been drawn.
bool Rejection::keeps(int32_t draft, double evenly) {
  const auto token = static_cast<size_t>(drafts_.token_ids[static_cast<size_t>(draft)]);
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

// The greatest of noisy log-probs, the lowest id among equals. Where rounding has left nothing, all
// that could be refused was as probable as its draft: nothing changes.
int32_t Rejection::draw(uint32_t position) const {
  const bool any = std::any_of(left_.begin(), left_.end(), [](double value) { return value > 0; });
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

}  // namespace molspec
