// What searches that stay on a device keep of every query, as bytes in rows of tensors. Python
// reads the layouts of `_native` (native.cpp).

#pragma once

#include <cstdint>

#include "common/anywhere.h"

namespace molspec {

struct AnswerState {
  enum State : int32_t { kFree, kLive, kDone, kNoNumbers };
  static constexpr int32_t kNotStaged = -1;  // the first node of a query that has none in the step
};

// Of greedy decoding, the head of a row of `answers`; the token ids follow it.
struct GreedyAnswer : AnswerState {
  double log_prob;
  int32_t state;
  int32_t finished;     // whether EOS was reached
  int32_t token_count;  // EOS not among them; while the row is live, the position of its last token
  int32_t steps, nodes, drafted_tokens, accepted_tokens, emitted_tokens;  // SearchStatistics
  int32_t first_node;  // of the running step, or kNotStaged
  int32_t max_length;  // tokens that may be emitted, EOS counted
};
static_assert(sizeof(GreedyAnswer) % 8 == 0, "rows follow each other");

// Of a beam search, the head of a row of `answers`; then come places and token ids.
struct BeamAnswer : AnswerState {
  static constexpr int32_t kNowhere = -1;

  int32_t state;
  int32_t count;           // hypotheses in the beam
  int32_t finished_count;  // hypotheses that finished apart
  int32_t length;          // tokens of each live hypothesis
  int32_t steps, nodes, drafted_tokens, accepted_tokens, emitted_tokens;  // SearchStatistics
  int32_t planned_count;  // nodes that wait for the next step, or are in the running one
  int32_t first_node;     // of the running step, or kNotStaged
  int32_t max_length;     // tokens of a hypothesis, EOS counted
  int32_t used_count;     // nodes of the tree; 0 where it has not begun
  int32_t looked_from;    // the length from which drafts were planned last, or kNowhere
  int32_t unused[2];
};
static_assert(sizeof(BeamAnswer) % 8 == 0, "rows follow each other");

struct BeamPlace {
  double log_prob;
  int32_t node;         // of its last token; of a finished one, of the token before EOS
  int32_t length;       // tokens, EOS counted
  int32_t finished;     // whether EOS was reached
  int32_t draft_count;  // places of the plan for its windows
};
static_assert(sizeof(BeamPlace) % 8 == 0, "rows follow each other");

struct BeamNode {
  static constexpr int32_t kNone = -1;
  // What is known of a node, as bits of `known`.
  enum Known : int32_t {
    kEvaluated = 1,  // its likeliest tokens are the model's
    kGuessed = 2,    // they are a guess's
    kFollowed = 4,   // its guess state is there
    kDrafted = 8,    // staged by looking ahead, or as a window
    kAccepted = 16,  // a window's, accepted after its parent
  };

  int32_t token_id;
  int32_t position;                   // 0 for BOS
  int32_t first_child, next_sibling;  // nodes, or kNone; see BeamTrees
  int32_t known;
  int32_t kept;  // scratch
};
static_assert(sizeof(BeamNode) % 8 == 0, "rows follow each other");

}  // namespace molspec
