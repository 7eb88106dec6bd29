// select_beams: the likeliest tokens behind every live hypothesis -> the next beam, as
// search/beam.h says: the best of the extensions and of what had finished, by score, then the rank
// of the hypothesis that they extend, then token id. A query is done where no hypothesis goes on,
// or, where they finish apart, none could be better than the last of a full list.

#pragma once

#include "ops/beam_rows.h"
#include "ops/rank_tokens.h"

namespace molspec {

struct SelectBeamsProblem {
  BeamAnswers answers;          // written
  PathRows paths;               // written
  const int32_t* best_ids;      // [node, candidate_count], of rank_tokens
  const float* best_log_probs;  // [node, candidate_count]
  int64_t node_count;
  int64_t candidate_count;     // beam_size; one more where hypotheses finish apart
  const double* length_norms;  // [1 + capacity]: scores are log_prob / length_norms[length]
  int32_t eos_id;
};

SelectBeamsProblem select_beams_check(const Tensor& answers, const Tensor& path_slots,
                                      const Tensor& best_ids, const Tensor& best_log_probs,
                                      const Tensor& length_norms, int64_t eos_id);

}  // namespace molspec
