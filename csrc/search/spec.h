// The settings of one query's search, as plain values that compare. The host builds a search from
// them, a device its rounds. Each has a check(), which throws std::invalid_argument and names the
// setting if a value is invalid.

#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <variant>

#include "common/require.h"
#include "drafting/drafter.h"
#include "search/rule.h"

namespace molspec {

class Search;
struct Row;

// The settings of every search. Batch applies min_length and token_log_probs, for which a search
// must keep the nodes of its finished hypotheses.
struct Settings {
  int32_t max_length;            // tokens of a hypothesis, EOS counted
  int32_t min_length = 1;        // the same
  bool token_log_probs = false;  // hypotheses have the log-prob of each token

  bool operator==(const Settings&) const = default;
  void check() const {
    require(max_length >= 1, "max_length", max_length, "at least 1");
    require(min_length >= 1 && min_length <= max_length, "min_length", min_length,
            "1 to max_length ", max_length);
  }
  // Whether an external drafter drafts.
  bool external() const { return false; }
  // Whether searches read other log-probs than the model's, as change() makes them.
  bool changes_rows() const { return min_length > 1; }
  // Changes the log-probs after a path of `length` tokens.
  void change(float* log_probs, int32_t length, int32_t eos_id) const {
    if (length + 1 < min_length) log_probs[eos_id] = -std::numeric_limits<float>::infinity();
  }
};

// Greedy decoding, or `samples` samples.
struct SequenceSpec : Settings {
  DrafterOptions drafter;
  RuleOptions rule;
  int32_t samples = 1;

  bool operator==(const SequenceSpec&) const = default;
  bool external() const { return std::holds_alternative<ExternalOptions>(drafter); }
  void check() const {
    Settings::check();
    require(samples >= 1, "samples", samples, "at least 1");
    require(samples == 1 || std::holds_alternative<Sampling>(rule), "samples", samples,
            "1 without Sampling as the rule");
  }
  std::unique_ptr<Search> search(const Row& row) const;
};

// Options of every beam search.
struct ListSpec : Settings {
  int32_t beam_size;
  int32_t n_best;
  double length_penalty = 0;

  bool operator==(const ListSpec&) const = default;
  void check() const {
    Settings::check();
    require(beam_size >= 1, "beam_size", beam_size, "at least 1");
    require(n_best >= 1 && n_best <= beam_size, "n_best", n_best, "1 to beam_size");
    require(std::isfinite(length_penalty) && length_penalty >= 0, "length_penalty", length_penalty,
            "at least 0");
  }
};

// Exact beam search. It looks ahead by `steps` steps on guesses; with 0 it is standard beam search.
struct BeamSpec : ListSpec {
  bool finished_apart = false;  // finished hypotheses leave the beam, as in Hugging Face `generate`
  int32_t steps = 0;
  int32_t node_budget = 0;  // drafted nodes a query and pass
  // Nodes that are needed with a lower probability are not drafted: they cost more than they save.
  float min_confidence = 1;
  bool proposed = false;  // drafts from an external drafter serve as guesses

  bool operator==(const BeamSpec&) const = default;
  bool external() const { return proposed; }
  bool drafts() const { return steps > 0 && node_budget > 0; }
  void check() const {
    ListSpec::check();
    require(steps >= 0, "steps", steps, "at least 0");
    require(node_budget >= 0, "node_budget", node_budget, "at least 0");
    require(min_confidence >= 0 && min_confidence <= 1, "min_confidence", min_confidence, "0 to 1");
  }
  std::unique_ptr<Search> search(const Row& row) const;
};

struct SpeculativeBeamSpec : ListSpec {
  float nucleus;
  DrafterOptions drafter;

  bool operator==(const SpeculativeBeamSpec&) const = default;
  bool external() const { return std::holds_alternative<ExternalOptions>(drafter); }
  void check() const {
    ListSpec::check();
    require(nucleus > 0 && nucleus <= 1, "nucleus", nucleus, "more than 0, at most 1");
  }
  std::unique_ptr<Search> search(const Row& row) const;
};

// Scores given targets: only their log-probs are computed.
struct ForcedSpec : Settings {
  bool operator==(const ForcedSpec&) const = default;
  void check() const {
    Settings::check();
    require(min_length == 1, "min_length", min_length, "1 with a given target");
  }
  std::unique_ptr<Search> search(const Row& row) const;
};

using SearchSpec = std::variant<SequenceSpec, BeamSpec, SpeculativeBeamSpec, ForcedSpec>;

}  // namespace molspec
