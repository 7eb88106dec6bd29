// Rules: how the next token of a sequence is chosen. All else, such as which drafts are accepted,
// follows from it (rules/accept.h).

#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <variant>

#include "common/require.h"
#include "search/head.h"

namespace molspec {

// What a rule chooses by: the log-probs after a path of `length` tokens that began with a head.
struct Fork {
  const float* log_probs;  // [vocab_size]
  int32_t vocab_size;
  uint32_t length;
  const Head& head;
  int32_t slot;  // of the path's last token

  // That token among the head's drafts: kRoot if it is the head, kNone if it was not drafted.
  int32_t draft() const;
};

// Returns the next token with the model's log-prob: NaN if the model's log-probs are not numbers.
using Rule = std::function<Drawn(const Fork&)>;

// The model's argmax: no draft changes an answer.
struct Argmax {
  bool operator==(const Argmax&) const = default;
};

// A draft that is nearly as probable as the argmax. Xia et al., Findings of EMNLP 2023,
// "Speculative Decoding", section 3.3 (Spec-Verification). Not lossless: answers count their tokens
// that are not the model's argmax.
struct Relaxed {
  int32_t beta;            // a draft must be among the beta likeliest tokens
  double tau;              // and at most tau nats below the likeliest
  bool judged_by_drafter;  // takes the drafter's log-prob of it (the paper's earlier form)

  bool operator==(const Relaxed&) const = default;
  void check() const {
    require(beta >= 1, "beta", beta, "at least 1");
    require(std::isfinite(tau) && tau >= 0, "tau", tau, "at least 0");
  }
};

using RuleOptions = std::variant<Argmax, Relaxed, Sampling>;

Rule rule_of(const RuleOptions& options, const std::optional<Sampler>& sampler);

// The rule of a draft model. Rejection sampling never draws the tokens that are left out, and
// `drafts` gets the distributions of its tokens.
Rule drafting_rule(const std::optional<Sampler>& sampler, const SpecialIds& left_out,
                   DraftTree& drafts);

}  // namespace molspec
