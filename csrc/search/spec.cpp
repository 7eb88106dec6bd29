#include "search/spec.h"

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "search/beam.h"
#include "search/forced.h"
#include "search/greedy.h"
#include "search/sample.h"
#include "search/speculative_beam.h"
#include "search/stochastic_beam.h"

namespace molspec {
namespace {

void require(bool holds, const char* name, double value, const char* expected) {
  if (holds) return;
  std::ostringstream text;
  text << name << " is " << value << ": expected " << expected;
  throw std::invalid_argument(text.str());
}

}  // namespace

void GreedySpec::check() const {
  require(max_length >= 1, "max_length", max_length, "at least 1");
  molspec::check(drafter);
  if (!relaxed) return;
  require(relaxed->beta >= 1, "beta", relaxed->beta, "at least 1");
  require(std::isfinite(relaxed->tau) && relaxed->tau >= 0, "tau", relaxed->tau, "at least 0");
}

void ListSpec::check() const {
  require(beam_size >= 1, "beam_size", beam_size, "at least 1");
  require(n_best >= 1 && n_best <= beam_size, "n_best", n_best, "1 to beam_size");
  require(max_length >= 1, "max_length", max_length, "at least 1");
  require(std::isfinite(length_penalty) && length_penalty >= 0, "length_penalty", length_penalty,
          "at least 0");
}

void BeamSpec::check() const {
  ListSpec::check();
  require(look_ahead.steps >= 0, "steps", look_ahead.steps, "at least 0");
  require(look_ahead.node_budget >= 0, "node_budget", look_ahead.node_budget, "at least 0");
  require(look_ahead.min_confidence >= 0 && look_ahead.min_confidence <= 1, "min_confidence",
          look_ahead.min_confidence, "0 to 1");
}

void StochasticBeamSpec::check() const {
  BeamSpec::check();
  sampling.check();
}

void SpeculativeBeamSpec::check() const {
  ListSpec::check();
  require(nucleus > 0 && nucleus <= 1, "nucleus", nucleus, "more than 0, at most 1");
  molspec::check(drafter);
}

void SampleSpec::check() const {
  require(samples >= 1, "samples", samples, "at least 1");
  require(max_length >= 1, "max_length", max_length, "at least 1");
  sampling.check();
  molspec::check(drafter);
}

std::unique_ptr<Search> GreedySpec::search(const Row& row) const {
  return std::make_unique<GreedySearch>(*this, row);
}

std::unique_ptr<Search> BeamSpec::search(const Row& row) const {
  return std::make_unique<BeamSearch>(*this, row);
}

std::unique_ptr<Search> StochasticBeamSpec::search(const Row& row) const {
  return std::make_unique<StochasticBeamSearch>(*this, row);
}

std::unique_ptr<Search> SpeculativeBeamSpec::search(const Row& row) const {
  return std::make_unique<SpeculativeBeamSearch>(*this, row);
}

std::unique_ptr<Search> SampleSpec::search(const Row& row) const {
  return std::make_unique<SampleSearch>(*this, row);
}

std::unique_ptr<Search> ForcedSpec::search(const Row& row) const {
  return std::make_unique<ForcedSearch>(*this, row);
}

}  // namespace molspec
