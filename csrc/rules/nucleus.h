// The acceptance and the leaves of speculative beam search (SBS), for host and device: Andronov et
// al., J. Cheminform. 2025, "Speculative beam search".

#pragma once

#include <cmath>
#include <cstdint>

#include "common/anywhere.h"
#include "rules/candidate.h"

namespace molspec {

// A draft token is accepted if it is among the likeliest at its position, of which there are as
// many as the beam is wide, and those before it have less probability than `nucleus` together.
// `best` offers the likeliest tokens in their order: count, token(i), log_prob(i).
template <typename Best>
MOLSPEC_ANYWHERE bool accept_nucleus(int32_t token_id, const Best& best, double nucleus) {
  double above = 0.0;
  for (int32_t i = 0; i < best.count(); ++i) {
    if (best.token(i) == token_id) return true;
    above += std::exp(static_cast<double>(best.log_prob(i)));
    if (above >= nucleus) return false;
  }
  return false;
}

// What may be in the next beam: a likeliest token after an accepted position, but not the draft's
// own where the draft goes on; or a hypothesis that goes no further, as it is.
struct Leaf : RankedCandidate {
  static constexpr int32_t kCarried = -1;  // its token_id

  double log_prob;
  int32_t node;    // that the token follows
  int32_t length;  // with the token

  // Leaves of one hypothesis may share score and token: then the shorter one is first.
  MOLSPEC_ANYWHERE bool before(const Leaf& other) const {
    if (better(*this, other) || better(other, *this)) return better(*this, other);
    return length < other.length;
  }
};

}  // namespace molspec
