// propose_windows: of the trees that a query's windows make, the one after its last token.

#pragma once

#include "ops/greedy_rows.h"
#include "ops/window_rows.h"

namespace molspec {

struct ProposeWindowsProblem {
  GreedyAnswers answers;
  DraftRows drafts;  // written: rows of live queries
  WindowRows windows;
  int32_t bos_id;
};

ProposeWindowsProblem propose_windows_check(const Tensor& answers, const Tensor& drafts,
                                            const Tensor& windows, int64_t bos_id);

}  // namespace molspec
