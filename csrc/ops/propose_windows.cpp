#include "ops/propose_windows.h"

namespace molspec {

ProposeWindowsProblem propose_windows_check(const Tensor& answers, const Tensor& drafts,
                                            const Tensor& windows, int64_t bos_id) {
  const GreedyAnswers rows = greedy_answers_check(answers);
  return {rows, draft_rows_check(drafts, rows), window_rows_check(windows, rows.query_count),
          static_cast<int32_t>(bos_id)};
}

}  // namespace molspec
