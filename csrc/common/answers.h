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

// Beam search: the head of a row of `answers`; places and token ids follow it.
struct BeamAnswer : AnswerState {
  int32_t state;
  int32_t count;           // hypotheses in the beam
  int32_t finished_count;  // hypotheses that finished apart
  int32_t length;          // tokens of each live hypothesis
  int32_t steps, nodes, drafted_tokens, accepted_tokens, emitted_tokens;  // SearchStatistics
  int32_t planned_count;  // nodes for the next step, or in the running one
  int32_t first_node;     // of the running step, or kNotStaged
  int32_t max_length;     // tokens of a hypothesis, EOS counted
  int32_t used_count;     // nodes of the tree; 0 before the first step
  int32_t unused;
};
static_assert(sizeof(BeamAnswer) % 8 == 0, "rows follow each other");

struct BeamPlace {
  double log_prob;
  int32_t node;      // of its last token; of a finished one, of the token before EOS
  int32_t length;    // tokens, EOS counted
  int32_t finished;  // whether EOS was reached
};
static_assert(sizeof(BeamPlace) % 8 == 0, "rows follow each other");

struct BeamNode {
  static constexpr int32_t kNone = -1;
  // Bits of `known`.
  enum Known : int32_t {
    kEvaluated = 1,  // its likeliest tokens are the model's
    kGuessed = 2,    // its likeliest tokens are guessed
    kFollowed = 4,   // its guess state is valid
    kDrafted = 8,    // staged by the lookahead
  };

  int32_t token_id;
  int32_t position;                   // 0 for BOS
  int32_t first_child, next_sibling;  // nodes, or kNone; see BeamTrees
  int32_t known;
  int32_t kept;  // scratch
};
static_assert(sizeof(BeamNode) % 8 == 0, "rows follow each other");

}  // namespace molspec
