// verify_nodes: log-probs of the staged nodes -> tokens. From the last token on, the model's argmax
// (the lowest id among equals) is emitted, for as long as it had been drafted and once more. The
// slots of what was confirmed become the path's.

#pragma once

#include "ops/greedy_rows.h"

namespace molspec {

struct VerifyNodesProblem {
  GreedyAnswers answers;  // written
  SlotRows slots;         // written
  DraftRows drafts;
  const float* log_probs;  // [node, vocab_size]
  int64_t node_count, vocab_size;
  int32_t eos_id;
};

VerifyNodesProblem verify_nodes_check(const Tensor& answers, const Tensor& slots,
                                      const Tensor& drafts, const Tensor& log_probs,
                                      int64_t eos_id);

}  // namespace molspec
