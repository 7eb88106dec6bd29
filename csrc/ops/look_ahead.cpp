#include "ops/look_ahead.h"

#include "ops/check.h"

namespace molspec {

LookAheadProblem look_ahead_check(const BeamRows& rows, const BestTokens& best,
                                  const GuessTensors& guess, const double* length_norms,
                                  int64_t lookahead_steps, int64_t node_budget,
                                  double min_confidence, int64_t bos_id, int64_t eos_id) {
  check_room(rows, lookahead_steps);
  const int64_t room = rows.trees.plan_limit - rows.answers.beam_size;
  check(node_budget >= 0 && node_budget <= room, "node_budget is ", node_budget, ": expected 0 to ",
        room, ", what plans has room for");
  LookAheadProblem problem{};
  problem.rows = rows;
  problem.best = best;
  problem.guess = guess;
  problem.length_norms = length_norms;
  problem.lookahead_steps = static_cast<int32_t>(lookahead_steps);
  problem.node_budget = static_cast<int32_t>(node_budget);
  problem.min_confidence = static_cast<float>(min_confidence);
  problem.bos_id = static_cast<int32_t>(bos_id);
  problem.eos_id = static_cast<int32_t>(eos_id);
  return problem;
}

}  // namespace molspec
