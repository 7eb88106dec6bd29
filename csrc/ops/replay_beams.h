// replay_beams: the likeliest tokens after every node -> the beam, as many steps of beam search
// further as they are known for, as search/beam.h says. Each step takes the best of the extensions
// and of what had finished, by score, then the rank of the hypothesis that they extend, then token
// id. Nodes that no hypothesis has before it or after it are given back; the last tokens that are
// not evaluated yet are planned. A query is done where no hypothesis goes on, or, where they finish
// apart, none could be better than the last of a full list.

#pragma once

#include "ops/beam_rows.h"
#include "ops/rank_tokens.h"

namespace molspec {

struct ReplayBeamsProblem {
  BeamRows rows;  // written
  BestTokens best;
  const double* length_norms;  // [capacity]: scores are log_prob / length_norms[length]
  int32_t eos_id;
};

ReplayBeamsProblem replay_beams_check(const BeamRows& rows, const BestTokens& best,
                                      const double* length_norms, int64_t eos_id);

}  // namespace molspec
