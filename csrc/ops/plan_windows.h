// plan_windows: after the last token of every hypothesis that goes on, the tree that the windows
// of its query make there -> planned nodes: first the last tokens by rank, then all drafts, tree by
// tree. A draft that is as long as a hypothesis may be is none: its place in the plan is a gap.

#pragma once

#include "ops/beam_rows.h"
#include "ops/window_rows.h"

namespace molspec {

struct PlanWindowsProblem {
  BeamRows rows;  // written: trees and plans
  WindowRows windows;
  int64_t draft_limit;  // nodes of a tree
  int32_t bos_id;
};

PlanWindowsProblem plan_windows_check(const BeamRows& rows, const WindowRows& windows,
                                      int64_t bos_id);

}  // namespace molspec
