#include "ops/stage_beams.h"

#include "ops/check.h"

namespace molspec {

StageBeamsProblem stage_beams_check(const Tensor& answers, const Tensor& path_slots,
                                    const Tensor& nodes, int64_t bos_id) {
  StageBeamsProblem problem{};
  problem.answers = beam_answers_check(answers, path_slots);
  problem.paths = path_rows_check(path_slots);
  problem.nodes = nodes_check(nodes);
  problem.node_count = nodes.size(0);
  problem.bos_id = static_cast<int32_t>(bos_id);
  return problem;
}

}  // namespace molspec
