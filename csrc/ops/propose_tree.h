// propose_tree: best-first expansion of a guess, as drafting/draft_tree.h says. A query has a guess
// state for its emitted tokens, then those that the device keeps of nodes and of what may become
// one. A device expands several paths in a turn: what nobody has expanded after the last turn gets
// no nodes after it. With a turn a node a tree is the host's.

#pragma once

#include "common/limits.h"
#include "ops/greedy_rows.h"
#include "ops/guess_tensors.h"

namespace molspec {

struct ProposeTreeProblem {
  GreedyAnswers answers;
  DraftRows drafts;    // written: rows of live queries; `limit` is the node budget
  GuessTensors guess;  // written: heads of texts, and states
  int32_t max_depth;
  int32_t max_turns;
  float min_log_prob;  // of a path that is drafted
};

ProposeTreeProblem propose_tree_check(const Tensor& answers, const Tensor& drafts,
                                      const Tensor& tables, const Tensor& texts,
                                      const Tensor& states, int64_t max_depth, int64_t max_turns,
                                      double min_log_prob);

}  // namespace molspec
