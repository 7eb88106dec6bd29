#include "ops/rank_tokens.h"

#include "ops/check.h"

namespace molspec {

RankTokensProblem rank_tokens_check(const Tensor& nodes, const Tensor& path_slots,
                                    const Tensor& log_probs, const Tensor& best_ids,
                                    const Tensor& best_log_probs) {
  RankTokensProblem problem{};
  problem.nodes = nodes_check(nodes);
  problem.node_count = nodes.size(0);
  problem.path_slots =
      checked_data<const int32_t>(path_slots, "path_slots", ScalarType::Int, path_slots.dim());
  problem.log_probs = checked_data<const float>(log_probs, "log_probs", ScalarType::Float, 2);
  problem.vocab_size = log_probs.size(1);
  check(log_probs.size(0) == problem.node_count && problem.vocab_size >= 1, "log_probs has shape [",
        log_probs.size(0), ", ", problem.vocab_size, "]: expected [", problem.node_count,
        ", at least 1]");
  problem.best_ids = checked_data<int32_t>(best_ids, "best_ids", ScalarType::Int, 2);
  problem.best_log_probs =
      checked_data<float>(best_log_probs, "best_log_probs", ScalarType::Float, 2);
  problem.count = best_ids.size(1);
  check(problem.count >= 1, "best_ids has shape [", best_ids.size(0), ", ", problem.count,
        "]: expected [slots, at least 1]");
  check(best_log_probs.size(0) == best_ids.size(0) && best_log_probs.size(1) == problem.count,
        "best_log_probs has shape [", best_log_probs.size(0), ", ", best_log_probs.size(1),
        "]: expected that of best_ids, [", best_ids.size(0), ", ", problem.count, "]");
  return problem;
}

}  // namespace molspec
