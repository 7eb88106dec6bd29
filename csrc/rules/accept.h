// Acceptance, for host and device: a rule chooses each token, and the drafts with the chosen tokens
// are accepted. If the rule takes the model's argmax, every emitted token is the model's own,
// whatever the drafts. Andronov et al., J. Cheminform. 2025, "Speculative greedy decoding".
//
// A *team* is the threads that follow the path; all compute the same values. It offers
//
//   next(node)            the token that the rule chooses after a staged node, as an object with
//                         token_id and log_prob: the model's, NaN if it is not a number
//   drafted(node, token)  the staged draft of a token after a node, or kLastToken if there is none
//   keep(node, count)     the node is on the path, after `count` accepted drafts
//   write(index, token)   writes an emitted token

#pragma once

#include <cstdint>

#include "rules/stop.h"

namespace molspec {

enum class Verdict : int32_t { kContinues, kDone, kNoNumbers };

// The staged node with which a round begins: the last emitted token.
constexpr int32_t kLastToken = 0;

// Emits a token. Returns whether the answer ends with it.
template <typename Team, typename Answer>
MOLSPEC_ANYWHERE bool emit(const Team& team, int32_t token_id, float log_prob, const Stop& stop,
                           Answer& answer) {
  answer.log_prob += static_cast<double>(log_prob);
  ++answer.emitted_tokens;
  answer.finished = stop.finishes(token_id);
  if (!answer.finished) team.write(answer.token_count++, token_id);
  return !stop.continues(answer.finished, static_cast<int32_t>(answer.emitted_tokens));
}

// `answer` has log_prob, finished, token_count, accepted_tokens and emitted_tokens.
template <typename Team, typename Answer>
MOLSPEC_ANYWHERE Verdict accept(const Team& team, const Stop& stop, Answer& answer) {
  int32_t node = kLastToken;
  for (int32_t accepted = 0;; ++accepted) {
    const auto next = team.next(node);
    // Tests for NaN and infinity in a way that host and device compilers agree on.
    if (!(next.log_prob - next.log_prob == 0)) return Verdict::kNoNumbers;
    team.keep(node, accepted);
    if (emit(team, next.token_id, next.log_prob, stop, answer)) return Verdict::kDone;
    node = team.drafted(node, next.token_id);
    if (node == kLastToken) return Verdict::kContinues;
    ++answer.accepted_tokens;
  }
}

}  // namespace molspec
