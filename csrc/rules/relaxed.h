// Relaxed acceptance: a draft is accepted if it is nearly as probable as the argmax. Xia et al.,
// Findings of EMNLP 2023, "Speculative Decoding", section 3.3 (Spec-Verification). Not lossless:
// answers count their tokens that are not the model's argmax.
//
// Beside the functions of rules/argmax.h, a *team* offers
//
//   nth_log_prob(node, n)     the n-th greatest log-prob after a staged node, from 1
//   drafts(node, take)        calls take(draft, token, log_prob, own) for each draft after a node:
//                             the model's log-prob of its token, and the drafter's

#pragma once

#include <cmath>
#include <cstdint>

#include "common/require.h"
#include "rules/argmax.h"

namespace molspec {

struct Relaxed {
  int32_t beta;            // a draft must be among the beta likeliest tokens
  double tau;              // and at most tau nats below the likeliest
  bool judged_by_drafter;  // takes the drafter's log-prob of it (the paper's earlier form)

  bool operator==(const Relaxed&) const = default;
  void check() const {
    require(beta >= 1, "beta", beta, "at least 1");
    require(std::isfinite(tau) && tau >= 0, "tau", tau, "at least 0");
  }
  // judged: the draft's log-prob; best, nth: the model's for its likeliest and beta-th token.
  bool tolerates(double judged, double best, double nth) const {
    return judged >= nth && best - judged <= tau;
  }
};

// `answer` also has tolerated_tokens: those that are not the argmax.
template <typename Team, typename Answer>
Verdict accept_relaxed(const Team& team, const Relaxed& rule, int32_t eos_id, int32_t max_length,
                       Answer& answer) {
  int32_t node = kLastToken;
  for (int32_t accepted = 0;; ++accepted) {
    auto next = team.likeliest(node);
    if (!(next.log_prob - next.log_prob == 0)) return Verdict::kNoNumbers;
    team.keep(node, accepted);
    int32_t draft = team.drafted(node, next.token_id);
    if (draft == kLastToken) {
      const double best = next.log_prob, nth = team.nth_log_prob(node, rule.beta);
      team.drafts(node, [&](int32_t at, int32_t token_id, float log_prob, double own) {
        const bool better = draft == kLastToken || log_prob > next.log_prob;
        if (!better || !rule.tolerates(rule.judged_by_drafter ? own : log_prob, best, nth)) return;
        draft = at;
        next = {token_id, log_prob};
      });
      answer.tolerated_tokens += draft != kLastToken;
    }
    if (emit(team, next.token_id, next.log_prob, eos_id, max_length, answer)) return Verdict::kDone;
    if (draft == kLastToken) return Verdict::kContinues;
    ++answer.accepted_tokens;
    node = draft;
  }
}

}  // namespace molspec
