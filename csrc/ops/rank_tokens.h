// rank_tokens: log-probs after every node -> its likeliest tokens, best first, the lower id first
// among equals, as the row of the node's slot. NaN is passed over; a row that begins with it, or
// whose greatest is infinite, has no token, as the host's searches find it. Where tokens run out
// the id is kNoToken.

#pragma once

#include "ops/decoder_step.h"
#include "rules/beam.h"

namespace molspec {

struct RankTokensProblem {
  const Node* nodes;          // [node_count]; gaps are left out
  const int32_t* path_slots;  // that nodes point into: a path ends with its node's slot
  const float* log_probs;     // [node_count, vocab_size]
  int64_t node_count, vocab_size;
  int64_t count;          // tokens a node
  int32_t* best_ids;      // [slot, count], written
  float* best_log_probs;  // [slot, count], written
};

RankTokensProblem rank_tokens_check(const Tensor& nodes, const Tensor& path_slots,
                                    const Tensor& log_probs, const Tensor& best_ids,
                                    const Tensor& best_log_probs);

}  // namespace molspec
