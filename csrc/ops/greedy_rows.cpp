#include "ops/greedy_rows.h"

#include "ops/check.h"

namespace molspec {

GreedyAnswers greedy_answers_check(const Tensor& answers) {
  auto* data = checked_data<uint8_t>(answers, "answers", ScalarType::Byte, 2);
  constexpr int64_t kHead = sizeof(GreedyAnswer), kId = sizeof(int32_t);
  const int64_t stride = answers.size(1);
  check(stride >= kHead + kId && stride % 8 == 0, "answers has rows of ", stride,
        " bytes: expected a multiple of 8, at least ", kHead + 2 * kId);
  return {data, answers.size(0), stride, (stride - kHead) / kId};
}

DraftRows draft_rows_check(const Tensor& drafts, const GreedyAnswers& answers) {
  auto* data = checked_data<int32_t>(drafts, "drafts", ScalarType::Int, 2);
  check(drafts.size(0) == answers.query_count && drafts.size(1) % 2 == 1, "drafts has shape [",
        drafts.size(0), ", ", drafts.size(1), "]: expected [", answers.query_count,
        ", 1 + 2 * nodes]");
  return {data, drafts.size(1) / 2};
}

SlotRows slot_rows_check(const Tensor& slots, const GreedyAnswers& answers,
                         const DraftRows& drafts) {
  auto* data = checked_data<int32_t>(slots, "slots", ScalarType::Int, 2);
  const int64_t least = answers.capacity + 1 + drafts.limit;
  check(slots.size(0) == answers.query_count && slots.size(1) >= least, "slots has shape [",
        slots.size(0), ", ", slots.size(1), "]: expected [", answers.query_count, ", at least ",
        least, "]");
  return {data, slots.size(1)};
}

}  // namespace molspec
