// The acceptance and the leaves of speculative beam search (SBS): Andronov et al., J. Cheminform.
// 2025, "Speculative beam search".

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "drafting/guess.h"
#include "rules/candidate.h"

namespace molspec {

// Accepts a draft token if it is among the likeliest beam_size tokens at its position and the more
// probable ones have less probability than `nucleus` together. `best` has the likeliest tokens in
// their order.
inline bool accept_nucleus(int32_t token_id, const std::vector<Candidate>& best, double nucleus) {
  double above = 0.0;
  for (const Candidate& each : best) {
    if (each.token == token_id) return true;
    above += std::exp(static_cast<double>(each.log_prob));
    if (above >= nucleus) return false;
  }
  return false;
}

// A candidate of the next beam: a likeliest token after an accepted position, except the accepted
// draft's own; or a hypothesis that has ended, unchanged.
struct Leaf : RankedCandidate {
  static constexpr int32_t kCarried = -1;  // its token_id

  double log_prob;
  int32_t node;    // before the token
  int32_t length;  // including the token

  // Leaves of one hypothesis may have equal score and token: then the shorter one is first.
  bool before(const Leaf& other) const {
    if (better(*this, other) || better(other, *this)) return better(*this, other);
    return length < other.length;
  }
};

}  // namespace molspec
