#include "ops/stage_beams.h"

#include <torch/csrc/stable/tensor.h>

namespace molspec {

StageBeamsProblem stage_beams_check(const BeamRows& rows, const Tensor& nodes, int64_t bos_id) {
  return {rows, nodes_check(nodes), nodes.size(0), static_cast<int32_t>(bos_id)};
}

}  // namespace molspec
