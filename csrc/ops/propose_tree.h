// propose_tree: best-first expansion of a guess, as text/draft_tree.h says. The host makes the rows
// that a guess reads (text/guess_rows.h): `tables` of the model once, a query's copy text when it
// starts. The states of its paths stay on the device: two for the emitted tokens, the running one
// and the one before or behind it, then one for each node of the tree that has children.

#pragma once

#include "ops/greedy_rows.h"
#include "text/guess_rows.h"

namespace molspec {

constexpr int64_t kMostTreeNodes = 32;  // that a warp's shared memory has room for

struct ProposeTreeProblem {
  GreedyAnswers answers;
  DraftRows drafts;       // written: rows of live queries; `limit` is the node budget
  const uint8_t* tables;  // GuessTables
  uint8_t* texts;         // [query, text_stride], GuessTextRow; their heads are written
  uint8_t* states;        // [query, drafts.limit + 1, state_stride]
  int64_t text_stride, state_stride;
  int32_t max_depth;
  float min_log_prob;  // of a path that is drafted

  MOLSPEC_ANYWHERE uint8_t* state(int64_t query, int64_t index) const {
    return states + (query * (drafts.limit + 1) + index) * state_stride;
  }
};

ProposeTreeProblem propose_tree_check(const Tensor& answers, const Tensor& drafts,
                                      const Tensor& tables, const Tensor& texts,
                                      const Tensor& states, int64_t max_depth, double min_log_prob);

}  // namespace molspec
