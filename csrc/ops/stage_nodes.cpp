#include "ops/stage_nodes.h"

#include "ops/check.h"

namespace molspec {

StageNodesProblem stage_nodes_check(const Tensor& answers, const Tensor& slots,
                                    const Tensor& drafts, const Tensor& nodes,
                                    const Tensor& path_slots, int64_t bos_id) {
  StageNodesProblem problem{};
  problem.answers = greedy_answers_check(answers);
  problem.drafts = draft_rows_check(drafts, problem.answers);
  problem.slots = slot_rows_check(slots, problem.answers, problem.drafts);
  problem.nodes = nodes_check(nodes);
  problem.node_count = nodes.size(0);
  problem.path_slots = checked_data<int32_t>(path_slots, "path_slots", ScalarType::Int, 1);
  const int64_t least = problem.node_count * problem.answers.capacity;
  check(path_slots.numel() >= least, "path_slots has ", path_slots.numel(),
        " entries: expected at least ", least);
  problem.bos_id = static_cast<int32_t>(bos_id);
  return problem;
}

}  // namespace molspec
