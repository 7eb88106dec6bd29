// stage_beams: the last token of every live hypothesis -> nodes of the next decoder_step, query by
// query and by rank. What follows is gaps. A query that finds no room, and those behind it, wait
// for a later round.

#pragma once

#include "ops/beam_rows.h"
#include "ops/decoder_step.h"

namespace molspec {

struct StageBeamsProblem {
  BeamAnswers answers;  // written: first_node, and what is counted of a step
  PathRows paths;       // written: the slots of the nodes
  Node* nodes;          // [node_count], written; path_begin is into paths.data
  int64_t node_count;
  int32_t bos_id;
};

StageBeamsProblem stage_beams_check(const Tensor& answers, const Tensor& path_slots,
                                    const Tensor& nodes, int64_t bos_id);

}  // namespace molspec
