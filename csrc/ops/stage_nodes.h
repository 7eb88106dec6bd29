// stage_nodes: the last token of every live query and the drafts after it -> nodes of the next
// decoder_step, query by query, and their paths. What follows is gaps.
//
// A draft at whose place no token may follow any more is a gap too. A query that finds no room, and
// those after it, wait for a later round.

#pragma once

#include "ops/decoder_step.h"
#include "ops/greedy_rows.h"

namespace molspec {

struct StageNodesProblem {
  GreedyAnswers answers;  // written: first_node, and what is counted of a step
  SlotRows slots;
  DraftRows drafts;
  Node* nodes;  // [node_count], written
  int64_t node_count;
  int32_t* path_slots;  // [node_count, capacity of an answer], written
  int32_t bos_id;
};

StageNodesProblem stage_nodes_check(const Tensor& answers, const Tensor& slots,
                                    const Tensor& drafts, const Tensor& nodes,
                                    const Tensor& path_slots, int64_t bos_id);

}  // namespace molspec
