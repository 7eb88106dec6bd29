// The specification of the search of one query: plain values. The host makes a search of them, a
// device its rounds.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "drafting/drafter.h"
#include "rules/relaxed.h"
#include "search/sampling.h"

namespace molspec {

class Search;
struct Row;

struct SearchSpec {
  virtual ~SearchSpec() = default;
  // Throws std::invalid_argument, naming the option, where one makes no sense.
  virtual void check() const = 0;
  virtual std::unique_ptr<Search> search(const Row& row) const = 0;
};

struct GreedySpec : SearchSpec {
  int32_t max_length;  // tokens emitted, EOS counted
  DrafterOptions drafter;
  std::optional<Relaxed> relaxed;  // where not every token must be the argmax

  void check() const override;
  std::unique_ptr<Search> search(const Row& row) const override;
};

// Options of every beam search.
struct ListSpec : SearchSpec {
  int32_t beam_size;
  int32_t n_best;
  int32_t max_length;  // tokens of a hypothesis, EOS counted
  double length_penalty;

  void check() const override;
};

// Looking ahead: the steps of beam search that are taken on guesses; none make standard beam
// search.
struct LookAhead {
  int32_t steps;
  int32_t node_budget;  // drafted nodes a query and pass
  // A node must pay for its row: what is less likely to be needed is not drafted.
  float min_confidence;

  bool drafts() const { return steps > 0 && node_budget > 0; }
};

struct BeamSpec : ListSpec {
  bool finished_apart;  // as `generate` of Hugging Face keeps them
  LookAhead look_ahead;
  bool proposed;  // drafts from outside are guesses, where there are such

  void check() const override;
  std::unique_ptr<Search> search(const Row& row) const override;
};

// So many samples that all differ: a beam of noisy scores, one wider than they are many.
struct StochasticBeamSpec : BeamSpec {
  Sampling sampling;

  void check() const override;
  std::unique_ptr<Search> search(const Row& row) const override;
};

struct SpeculativeBeamSpec : ListSpec {
  float nucleus;
  DrafterOptions drafter;

  void check() const override;
  std::unique_ptr<Search> search(const Row& row) const override;
};

// So many samples, with replacement.
struct SampleSpec : SearchSpec {
  int32_t samples;
  int32_t max_length;  // tokens of a sample, EOS counted
  Sampling sampling;
  bool rejection;  // drafts are kept by chance (rejection.h), not where the noise says so
  DrafterOptions drafter;

  void check() const override;
  std::unique_ptr<Search> search(const Row& row) const override;
};

// The target is given, and only its log-prob is computed.
struct ForcedSpec : SearchSpec {
  void check() const override {}
  std::unique_ptr<Search> search(const Row& row) const override;
};

}  // namespace molspec
