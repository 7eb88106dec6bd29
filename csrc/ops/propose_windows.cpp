#include "ops/propose_windows.h"

#include "ops/check.h"

namespace molspec {

ProposeWindowsProblem propose_windows_check(const Tensor& answers, const Tensor& drafts,
                                            const Tensor& trees, int64_t bos_id) {
  ProposeWindowsProblem problem{};
  problem.answers = greedy_answers_check(answers);
  problem.drafts = draft_rows_check(drafts, problem.answers);
  problem.trees = checked_data<const int32_t>(trees, "trees", ScalarType::Int, 2);
  problem.tree_stride = trees.size(1);
  check(trees.size(0) == problem.answers.query_count && problem.tree_stride >= 1,
        "trees has shape [", trees.size(0), ", ", trees.size(1), "]: expected a row a query, ",
        problem.answers.query_count);
  problem.bos_id = static_cast<int32_t>(bos_id);
  return problem;
}

}  // namespace molspec
