// stage_beams: the planned nodes of every query -> nodes of the next decoder_step, query by query.
// What follows is gaps. A query that finds no room, and those after it, wait for a later round.
// The tree of a query that begins is made: BOS, planned.

#pragma once

#include "ops/beam_rows.h"
#include "ops/decoder_step.h"

namespace molspec {

struct StageBeamsProblem {
  BeamRows rows;  // written: what is counted of a step, first_node, a tree's first node
  Node* nodes;    // [node_count], written; path_begin is into rows.trees.path_slots
  int64_t node_count;
  int32_t bos_id;
};

StageBeamsProblem stage_beams_check(const BeamRows& rows, const Tensor& nodes, int64_t bos_id);

}  // namespace molspec
