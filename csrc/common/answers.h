// The state of every query of searches that run on a device, as bytes in rows of tensors. Python
// reads their layouts from `_native` (native.cpp).

#pragma once

#include <cstdint>

#include "common/anywhere.h"

namespace molspec {

struct AnswerState {
  enum State : int32_t { kFree, kLive, kDone, kNoNumbers };
  static constexpr int32_t kNotStaged = -1;  // first_node of a query without nodes in the step
};

// Greedy decoding: the head of a row of `answers`; the token ids follow it.
struct GreedyAnswer : AnswerState {
  double log_prob;
  int32_t state;
  int32_t finished;     // whether EOS was reached
  int32_t token_count;  // without EOS; while the row is live, the position of its last token
  int32_t steps, nodes, drafted_tokens, accepted_tokens, emitted_tokens;  // SearchStatistics
  int32_t first_node;  // of the running step, or kNotStaged
  int32_t max_length;  // tokens that may be emitted, EOS counted
};
static_assert(sizeof(GreedyAnswer) % 8 == 0, "rows follow each other");

// Beam search: the head of a row of `answers`; hypotheses and token ids follow it.
struct BeamAnswer : AnswerState {
  int32_t state;
  int32_t count;           // hypotheses in the beam
  int32_t finished_count;  // hypotheses that finished apart
  int32_t length;          // tokens of each live hypothesis
  int32_t steps, nodes, drafted_tokens, accepted_tokens, emitted_tokens;  // SearchStatistics
  int32_t live_count;  // hypotheses in the beam that have not ended: the nodes of a step
  int32_t first_node;  // of the running step, or kNotStaged
  int32_t max_length;  // tokens of a hypothesis, EOS counted
};
static_assert(sizeof(BeamAnswer) % 8 == 0, "rows follow each other");

struct BeamHypothesis {
  double log_prob;
  int32_t node;      // of its last token; of a finished one, of the token before EOS
  int32_t length;    // tokens, EOS counted
  int32_t finished;  // whether EOS was reached
};
static_assert(sizeof(BeamHypothesis) % 8 == 0, "rows follow each other");

struct BeamNode {
  static constexpr int32_t kNone = -1;

  int32_t token_id;
  int32_t parent;  // slot; kNone for BOS
};

}  // namespace molspec
