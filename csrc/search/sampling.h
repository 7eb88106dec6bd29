// How a token is drawn: filters, then noise that decides. The filters are those of Hugging Face
// `generate`: temperature, top-k, top-p. Among equals the lower id comes first, so that the result
// is unique.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "rules/noise.h"

namespace molspec {

struct Sampling {
  double temperature = 1;
  std::optional<int32_t> top_k;  // only the top_k likeliest tokens
  std::optional<double> top_p;   // only the fewest likeliest tokens that reach this probability
  uint64_t seed = 0;
  bool rejection = false;  // decides on drafts (rule.cpp), not the noise

  bool operator==(const Sampling&) const = default;
  // Throws std::invalid_argument, naming the option, if a value is invalid.
  void check() const;
};

// A token that may be drawn, with the model's log-prob and the one after the filters.
struct Tempered {
  int32_t token_id;
  float log_prob;
  double drawn_log_prob;
};

struct Drawn {
  int32_t token_id;
  float log_prob;          // the model's; NaN if its log-probs are not numbers
  bool tolerated = false;  // it is not the argmax, but a draft nearly as probable
};

// The argmax of a row of log-probs, the lowest id among equals.
inline Drawn likeliest(const float* log_probs, int32_t vocab_size) {
  const float* best = std::max_element(log_probs, log_probs + vocab_size);
  return {static_cast<int32_t>(best - log_probs), *best};
}

// The tokens that pass the filters, likeliest first if there is a filter, otherwise by id; none if
// the row's maximum is not finite. NaN is skipped.
void tempered(const float* log_probs, int32_t vocab_size, const Sampling& sampling,
              std::vector<Tempered>& out);

// Draws the tokens of one sample.
class Sampler {
 public:
  Sampler(const Sampling& sampling, uint64_t query, uint32_t sample)
      : sampling_(sampling), noise_(Noise::of(sampling.seed, query).after(sample)) {}

  // The token after a path of `position` tokens.
  Drawn at(const float* log_probs, int32_t vocab_size, uint32_t position) const;

  // The sampler of a draft model. It has the same noise, so that the two agree most often; for
  // rejection sampling it has another.
  Sampler of_drafter() const;

  const Sampling& sampling() const { return sampling_; }
  const Noise& noise() const { return noise_; }

 private:
  Sampling sampling_;
  Noise noise_;
};

}  // namespace molspec
