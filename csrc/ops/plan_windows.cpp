#include "ops/plan_windows.h"

#include "ops/check.h"

namespace molspec {

PlanWindowsProblem plan_windows_check(const BeamRows& rows, const WindowRows& windows,
                                      int64_t bos_id) {
  const int64_t limit = rows.trees.plan_limit / rows.answers.beam_size - 1;
  check_room(rows, limit);
  check(limit < 1 << 16, "plans has room for ", limit,
        " drafts of a hypothesis: expected fewer than ", 1 << 16);
  return {rows, windows, limit, static_cast<int32_t>(bos_id)};
}

}  // namespace molspec
