// The specification of the search of one query: plain values. The host makes a search of them, a
// device its rounds.

#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/require.h"
#include "drafting/drafter.h"
#include "rules/relaxed.h"
#include "search/sampling.h"

namespace molspec {

class Search;
struct Row;

struct SearchSpec {
  virtual ~SearchSpec() = default;
  virtual std::unique_ptr<Search> search(const Row& row) const = 0;
};
// Each has a check(), which throws std::invalid_argument, naming the option, where one makes no
// sense.

// Greedy decoding, or so many samples with replacement.
struct SequenceSpec : SearchSpec {
  int32_t max_length;  // tokens emitted, EOS counted
  DrafterOptions drafter;
  std::optional<Relaxed> relaxed;    // greedy decoding where not every token must be the argmax
  std::optional<Sampling> sampling;  // of samples
  int32_t samples = 1;
  bool rejection = false;  // drafts are kept by chance (rejection.h), not where the noise says so

  void check() const {
    require(max_length >= 1, "max_length", max_length, "at least 1");
    require(samples >= 1, "samples", samples, "at least 1");
    require(samples == 1 || sampling, "samples", samples, "1 without sampling");
    require(!rejection || sampling, "rejection", "true", "sampling with it");
    if (relaxed && sampling) throw_invalid("relaxed is given with sampling: expected one of them");
  }
  std::unique_ptr<Search> search(const Row& row) const override;
};

// Options of every beam search.
struct ListSpec : SearchSpec {
  int32_t beam_size;
  int32_t n_best;
  int32_t max_length;  // tokens of a hypothesis, EOS counted
  double length_penalty = 0;

  void check() const {
    require(beam_size >= 1, "beam_size", beam_size, "at least 1");
    require(n_best >= 1 && n_best <= beam_size, "n_best", n_best, "1 to beam_size");
    require(max_length >= 1, "max_length", max_length, "at least 1");
    require(std::isfinite(length_penalty) && length_penalty >= 0, "length_penalty", length_penalty,
            "at least 0");
  }
};

// Exact beam search. It looks ahead by taking `steps` on guesses; none make standard beam search.
// With `sampling` as many samples as n_best that all differ: a beam of noisy scores, one wider than
// they are many.
struct BeamSpec : ListSpec {
  bool finished_apart = false;  // as `generate` of Hugging Face keeps them
  int32_t steps = 0;
  int32_t node_budget = 0;  // drafted nodes a query and pass
  // A node must pay for its row: what is less likely to be needed is not drafted.
  float min_confidence = 1;
  bool proposed = false;  // drafts from outside are guesses, where there are such
  std::optional<Sampling> sampling;

  bool drafts() const { return steps > 0 && node_budget > 0; }
  void check() const {
    ListSpec::check();
    require(steps >= 0, "steps", steps, "at least 0");
    require(node_budget >= 0, "node_budget", node_budget, "at least 0");
    require(min_confidence >= 0 && min_confidence <= 1, "min_confidence", min_confidence, "0 to 1");
    require(length_penalty == 0 || !sampling, "length_penalty", length_penalty, "0 with sampling");
    require(!finished_apart || !sampling, "finished_apart", "true", "false with sampling");
  }
  std::unique_ptr<Search> search(const Row& row) const override;
};

struct SpeculativeBeamSpec : ListSpec {
  float nucleus;
  DrafterOptions drafter;

  void check() const {
    ListSpec::check();
    require(nucleus > 0 && nucleus <= 1, "nucleus", nucleus, "more than 0, at most 1");
  }
  std::unique_ptr<Search> search(const Row& row) const override;
};

// The target is given, and only its log-prob is computed.
struct ForcedSpec : SearchSpec {
  std::unique_ptr<Search> search(const Row& row) const override;
};

}  // namespace molspec
