#include "ops/verify_nodes.h"

#include "ops/check.h"

namespace molspec {

VerifyNodesProblem verify_nodes_check(const Tensor& answers, const Tensor& slots,
                                      const Tensor& drafts, const Tensor& log_probs,
                                      int64_t eos_id) {
  VerifyNodesProblem problem{};
  problem.answers = greedy_answers_check(answers);
  problem.drafts = draft_rows_check(drafts, problem.answers);
  problem.slots = slot_rows_check(slots, problem.answers, problem.drafts);
  problem.log_probs = checked_data<const float>(log_probs, "log_probs", ScalarType::Float, 2);
  problem.node_count = log_probs.size(0);
  problem.vocab_size = log_probs.size(1);
  check(problem.vocab_size >= 1, "log_probs has no columns: expected one a token");
  problem.eos_id = static_cast<int32_t>(eos_id);
  return problem;
}

}  // namespace molspec
