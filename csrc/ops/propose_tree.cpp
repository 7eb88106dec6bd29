#include "ops/propose_tree.h"

#include "ops/check.h"

namespace molspec {

ProposeTreeProblem propose_tree_check(const Tensor& answers, const Tensor& drafts,
                                      const Tensor& tables, const Tensor& texts,
                                      const Tensor& states, int64_t max_depth,
                                      double min_log_prob) {
  ProposeTreeProblem problem{};
  problem.answers = greedy_answers_check(answers);
  problem.drafts = draft_rows_check(drafts, problem.answers);
  const int64_t queries = problem.answers.query_count, limit = problem.drafts.limit;
  check(limit >= 1 && limit <= kMostTreeNodes, "drafts has room for ", limit,
        " nodes: expected 1 to ", kMostTreeNodes);
  problem.tables = checked_data<const uint8_t>(tables, "tables", ScalarType::Byte, 1);
  constexpr auto kHead = static_cast<int64_t>(sizeof(GuessTables::Head));
  check(tables.numel() >= kHead, "tables has ", tables.numel(), " bytes: expected at least ",
        kHead);
  problem.texts = checked_data<uint8_t>(texts, "texts", ScalarType::Byte, 2);
  problem.text_stride = texts.size(1);
  constexpr auto kTextHead = static_cast<int64_t>(sizeof(GuessTextRow::Head));
  check(
      texts.size(0) == queries && problem.text_stride >= kTextHead && problem.text_stride % 8 == 0,
      "texts has shape [", texts.size(0), ", ", problem.text_stride, "]: expected [", queries,
      ", a multiple of 8, at least ", kTextHead, "]");
  problem.states = checked_data<uint8_t>(states, "states", ScalarType::Byte, 3);
  problem.state_stride = states.size(2);
  check(states.size(0) == queries && states.size(1) == limit + 1 &&
            problem.state_stride >= kGuessPlaceBytes && problem.state_stride % 8 == 0,
        "states has shape [", states.size(0), ", ", states.size(1), ", ", problem.state_stride,
        "]: expected [", queries, ", ", limit + 1, ", a multiple of 8, at least ", kGuessPlaceBytes,
        "]");
  check(max_depth >= 1, "max_depth is ", max_depth, ": expected at least 1");
  problem.max_depth = static_cast<int32_t>(max_depth);
  problem.min_log_prob = static_cast<float>(min_log_prob);
  return problem;
}

}  // namespace molspec
