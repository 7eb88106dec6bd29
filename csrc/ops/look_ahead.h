// look_ahead: the recurrence of beam search on what is known, and on guesses where it is not, for
// up to lookahead_steps steps -> what would be live there is planned, as search/beam.h says. Every
// node that it comes by has a guess state.

#pragma once

#include "ops/beam_rows.h"
#include "ops/guess_tensors.h"
#include "ops/rank_tokens.h"

namespace molspec {

struct LookAheadProblem {
  BeamRows rows;               // written: trees and plans
  BestTokens best;             // written: guesses of nodes that are not evaluated
  GuessTensors guess;          // written: states
  const double* length_norms;  // [capacity]
  int32_t lookahead_steps, node_budget;
  float min_confidence;
  int32_t bos_id, eos_id;
};

LookAheadProblem look_ahead_check(const BeamRows& rows, const BestTokens& best,
                                  const GuessTensors& guess, const double* length_norms,
                                  int64_t lookahead_steps, int64_t node_budget,
                                  double min_confidence, int64_t bos_id, int64_t eos_id);

}  // namespace molspec
