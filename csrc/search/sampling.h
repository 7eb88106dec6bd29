// How a token is drawn: which tokens may be, and the noise that decides. Filters first, as
// `generate` of Hugging Face has them: temperature, top-k, top-p. Among equals the lower id comes
// first, so that what is kept is the only choice.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "rules/noise.h"

namespace molspec {

struct Sampling {
  double temperature = 1;
  std::optional<int32_t> top_k;  // the likeliest so many
  std::optional<double> top_p;   // the fewest likeliest that have so much probability together
  uint64_t seed = 0;

  // Throws std::invalid_argument, naming the option, where one makes no sense.
  void check() const;
};

// A token that may be drawn: the model's log-prob, and the one it is drawn with.
struct Tempered {
  int32_t token_id;
  float log_prob;
  double drawn_log_prob;
};

struct Drawn {
  int32_t token_id;
  float log_prob;  // the model's own; NaN where its log-probs are no numbers
};

// The argmax of a row of log-probs, the lowest id among equals.
inline Drawn likeliest(const float* log_probs, int32_t vocab_size) {
  const float* best = std::max_element(log_probs, log_probs + vocab_size);
  return {static_cast<int32_t>(best - log_probs), *best};
}

// The tokens that may be drawn after a row of log-probs, likeliest first where there is a filter,
// else by id; none where the row's greatest is no finite number. NaN is passed over.
void tempered(const float* log_probs, int32_t vocab_size, const Sampling& sampling,
              std::vector<Tempered>& out);

// Draws the tokens of one sample.
class Sampler {
 public:
  // rejects: drafts are kept or refused by their probability (rejection.h).
  Sampler(const Sampling& sampling, uint64_t query, uint32_t sample, bool rejects = false)
      : sampling_(sampling),
        noise_(Noise::of(sampling.seed, query).after(sample)),
        rejects_(rejects) {}

  // The token after a path of `position` tokens.
  Drawn at(const float* log_probs, int32_t vocab_size, uint32_t position) const;

  // What draws for a model that drafts: with the same noise it agrees most often; drafts that may
  // be refused are drawn by another.
  Sampler of_drafter() const;

  const Sampling& sampling() const { return sampling_; }
  const Noise& noise() const { return noise_; }
  bool rejects() const { return rejects_; }

 private:
  Sampling sampling_;
  Noise noise_;
  bool rejects_;
};

}  // namespace molspec
