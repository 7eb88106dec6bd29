// Shared by the beam searches on the host: hypotheses by rank, their scores and likeliest tokens.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "drafting/guess.h"
#include "rules/beam.h"
#include "search/search.h"

namespace molspec {

// The divisor of the log-prob of `length` tokens: length^length_penalty.
double length_norm(int32_t length, double length_penalty);
// log_prob, or log_prob / length_norm.
double beam_score(double log_prob, int32_t length, double length_penalty);

// The `count` most probable tokens of a row, the lower id first among equals. NaN is skipped; a row
// that begins with NaN, or whose maximum is infinite, has none.
void best_tokens(const float* log_probs, int32_t vocab_size, int32_t count,
                 std::vector<Candidate>& out);

// The first n_best entries of a beam, with their tokens.
template <typename Entry>
std::vector<Hypothesis> ranked_hypotheses(const TokenTree& tree, const std::vector<Entry>& beam,
                                          int32_t n_best) {
  std::vector<Hypothesis> hypotheses;
  for (size_t i = 0; i < std::min(beam.size(), static_cast<size_t>(n_best)); ++i) {
    const int32_t node = beam[i].node;
    const bool finished = beam[i].finished != 0;
    const int32_t slot = finished ? node : tree.parent(node);
    hypotheses.push_back({tree.path(node), beam[i].log_prob, finished, slot});
  }
  return hypotheses;
}

}  // namespace molspec
