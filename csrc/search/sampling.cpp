#include "search/sampling.h"

#include <cmath>
#include <limits>

#include "common/require.h"
#include "rules/candidate.h"

namespace molspec {
namespace {

// The maximum log-prob; -infinity if all are NaN.
float greatest(const float* log_probs, int32_t vocab_size) {
  float most = -std::numeric_limits<float>::infinity();
  for (int32_t i = 0; i < vocab_size; ++i) most = log_probs[i] > most ? log_probs[i] : most;
  return most;
}

void rank(const Sampling& sampling, std::vector<Tempered>& tokens) {
  const auto size = static_cast<int32_t>(tokens.size());
  keep_best(tokens, std::min(sampling.top_k.value_or(size), size), likelier);
}

// A token's probability, in units of the likeliest token's.
double weight(const Tempered& token) { return fixed_exp(token.drawn_log_prob); }

void cut(double top_p, std::vector<Tempered>& tokens) {
  double total = 0, above = 0;
  for (const Tempered& token : tokens) total += weight(token);
  size_t count = 0;
  while (count < tokens.size() && (count == 0 || above < top_p * total))
    above += weight(tokens[count++]);
  tokens.resize(count);
}

}  // namespace

void Sampling::check() const {
  require(std::isfinite(temperature) && temperature > 0, "temperature", temperature,
          "a number above 0");
  if (top_k) require(*top_k >= 1, "top_k", *top_k, "at least 1");
  if (top_p) require(*top_p > 0 && *top_p <= 1, "top_p", *top_p, "more than 0, at most 1");
}

void tempered(const float* log_probs, int32_t vocab_size, const Sampling& sampling,
              std::vector<Tempered>& out) {
  out.clear();
  const float most = greatest(log_probs, vocab_size);
  if (!std::isfinite(most)) return;
  for (int32_t token = 0; token < vocab_size; ++token) {
    const float log_prob = log_probs[token];
    if (!std::isfinite(log_prob)) continue;
    const double below = static_cast<double>(log_prob) - static_cast<double>(most);
    out.push_back({token, log_prob, below / sampling.temperature});
  }
  if (sampling.top_k || sampling.top_p) rank(sampling, out);
  if (sampling.top_p) cut(*sampling.top_p, out);
  double total = 0;
  for (const Tempered& token : out) total += weight(token);
  const double norm = fixed_log(total);
  for (Tempered& token : out) token.drawn_log_prob -= norm;
}

Sampler Sampler::of_drafter() const {
  Sampler sampler = *this;
  if (sampling_.rejection) sampler.noise_ = noise_.of_drafter();
  return sampler;
}

Drawn Sampler::at(const float* log_probs, int32_t vocab_size, uint32_t position) const {
  Drawn drawn{0, std::numeric_limits<float>::quiet_NaN()};
  double best = -std::numeric_limits<double>::infinity();
  const auto offer = [&](int32_t token, float log_prob) {
    const double noisy = static_cast<double>(log_prob) / sampling_.temperature +
                         noise_.gumbel(position, static_cast<uint32_t>(token));
    if (!(noisy > best || (noisy == best && token < drawn.token_id))) return;
    best = noisy;
    drawn = {token, log_prob};
  };
  if (sampling_.top_k || sampling_.top_p) {
    thread_local std::vector<Tempered> tokens;
    tempered(log_probs, vocab_size, sampling_, tokens);
    for (const Tempered& token : tokens) offer(token.token_id, token.log_prob);
  } else if (std::isfinite(greatest(log_probs, vocab_size))) {
    // Without a filter the probabilities need not be normalised: that changes no order.
    for (int32_t token = 0; token < vocab_size; ++token) offer(token, log_probs[token]);
  }
  return drawn;
}

}  // namespace molspec
