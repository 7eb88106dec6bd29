#include "ops/replay_beams.h"

namespace molspec {

ReplayBeamsProblem replay_beams_check(const BeamRows& rows, const BestTokens& best,
                                      const double* length_norms, int64_t eos_id) {
  check_room(rows, 0);
  return {rows, best, length_norms, static_cast<int32_t>(eos_id)};
}

}  // namespace molspec
