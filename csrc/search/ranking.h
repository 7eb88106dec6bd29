// Shared by the beam searches on the host: hypotheses by rank, their scores and likeliest tokens.

#pragma once

#include <cstdint>
#include <vector>

#include "drafting/guess.h"
#include "rules/beam.h"
#include "search/search.h"

namespace molspec {

using Beam = std::vector<BeamEntry>;  // by rank

// The first hypothesis of a query.
inline BeamEntry first_entry(int32_t node, int32_t length) {
  return {0, node, length, 0, 1, kNoToken, -1};
}

// The divisor of the log-prob of `length` tokens: length^length_penalty.
double length_norm(int32_t length, double length_penalty);
// log_prob, or log_prob / length_norm.
double beam_score(double log_prob, int32_t length, double length_penalty);

// The `count` most probable tokens of a row, the lower id first among equals. NaN is skipped; a row
// that begins with NaN, or whose maximum is infinite, has none.
void best_tokens(const float* log_probs, int32_t vocab_size, int32_t count,
                 std::vector<Candidate>& out);

// The first n_best hypotheses of a beam, with their tokens.
std::vector<Hypothesis> ranked_hypotheses(const TokenTree& tree, const Beam& beam, int32_t n_best);

}  // namespace molspec
