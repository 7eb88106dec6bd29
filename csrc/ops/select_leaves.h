// select_leaves: the likeliest tokens after every node of plan_windows -> the next beam, as
// search/speculative_beam.cpp says. A draft token is accepted if it is among the beam_size
// likeliest, the tokens likelier than it have less probability than `nucleus` and the model has
// numbers for what follows it; of each hypothesis the draft with most accepted tokens is kept, the
// first of equals. Its leaves are the likeliest tokens at each accepted position but the draft's
// own, and all of them after the last one. The best leaves of all hypotheses are the next beam.

#pragma once

#include "common/limits.h"
#include "ops/beam_rows.h"
#include "ops/rank_tokens.h"

namespace molspec {

struct SelectLeavesProblem {
  BeamRows rows;  // written
  BestTokens best;
  const double* length_norms;  // [capacity]: scores are log_prob / length_norms[length]
  float nucleus;
  int32_t eos_id;
};

SelectLeavesProblem select_leaves_check(const BeamRows& rows, const BestTokens& best,
                                        const double* length_norms, double nucleus, int64_t eos_id);

}  // namespace molspec
