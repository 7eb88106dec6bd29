#include "ops/propose_tree.h"

#include "ops/check.h"

namespace molspec {

ProposeTreeProblem propose_tree_check(const Tensor& answers, const Tensor& drafts,
                                      const Tensor& tables, const Tensor& texts,
                                      const Tensor& states, int64_t max_depth, int64_t max_turns,
                                      double min_log_prob) {
  ProposeTreeProblem problem{};
  problem.answers = greedy_answers_check(answers);
  problem.drafts = draft_rows_check(drafts, problem.answers);
  const int64_t queries = problem.answers.query_count, limit = problem.drafts.limit;
  check(limit >= 1 && limit <= kMostTreeNodes, "drafts has room for ", limit,
        " nodes: expected 1 to ", kMostTreeNodes);
  problem.guess = guess_tensors_check(tables, texts, states, queries, limit + kTreeStates);
  check(max_depth >= 1, "max_depth is ", max_depth, ": expected at least 1");
  check(max_turns >= 1, "max_turns is ", max_turns, ": expected at least 1");
  problem.max_turns = static_cast<int32_t>(max_turns);
  problem.max_depth = static_cast<int32_t>(max_depth);
  problem.min_log_prob = static_cast<float>(min_log_prob);
  return problem;
}

}  // namespace molspec
