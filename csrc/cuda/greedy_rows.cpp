// The operators of a round of greedy decoding. None waits, none allocates: a round can be captured.
// Types and shapes are checked here; what tensors hold is the device's own.

#include "cuda/greedy_rows.h"

#include <torch/csrc/stable/library.h>

#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

GreedyAnswers greedy_answers(const Stream& stream, const Tensor& answers) {
  auto* data = stream.data<uint8_t>(answers, "answers", 2);
  constexpr int64_t kHead = sizeof(GreedyAnswer), kId = sizeof(int32_t);
  const int64_t stride = answers.size(1);
  check(stride >= kHead + kId && stride % 8 == 0, "answers has rows of ", stride,
        " bytes: expected a multiple of 8, at least ", kHead + 2 * kId);
  return {data, answers.size(0), stride, (stride - kHead) / kId};
}

DraftRows draft_rows(const Stream& stream, const Tensor& drafts, const GreedyAnswers& answers) {
  auto* data = stream.data<int32_t>(drafts, "drafts", 2);
  check(drafts.size(0) == answers.query_count && drafts.size(1) % 2 == 1, "drafts has shape ",
        Shape{drafts}, ": expected [", answers.query_count, ", 1 + 2 * nodes]");
  return {data, drafts.size(1) / 2};
}

SlotRows slot_rows(const Stream& stream, const Tensor& slots, const GreedyAnswers& answers,
                   const DraftRows& drafts) {
  auto* data = stream.data<int32_t>(slots, "slots", 2);
  const int64_t least = answers.capacity + 1 + drafts.limit;
  check(slots.size(0) == answers.query_count && slots.size(1) >= least, "slots has shape ",
        Shape{slots}, ": expected [", answers.query_count, ", at least ", least, "]");
  return {data, slots.size(1)};
}

void propose_windows_op(const Tensor& answers, const Tensor& drafts, const Tensor& windows,
                        int64_t bos_id) {
  const Stream stream(answers, "answers");
  const GreedyAnswers rows = greedy_answers(stream, answers);
  propose_windows({rows, draft_rows(stream, drafts, rows),
                   window_rows(stream, windows, rows.query_count), static_cast<int32_t>(bos_id)},
                  stream);
}

void propose_tree_op(const Tensor& answers, const Tensor& drafts, const Tensor& tables,
                     const Tensor& texts, const Tensor& states, int64_t max_depth,
                     int64_t max_turns, double min_log_prob) {
  const Stream stream(answers, "answers");
  const GreedyAnswers rows = greedy_answers(stream, answers);
  const DraftRows drafted = draft_rows(stream, drafts, rows);
  check(drafted.limit >= 1 && drafted.limit <= kMostTreeNodes, "drafts has room for ",
        drafted.limit, " nodes: expected 1 to ", kMostTreeNodes);
  const GuessTensors guess =
      guess_tensors(stream, tables, texts, states, rows.query_count, drafted.limit + kTreeStates);
  check(max_depth >= 1, "max_depth is ", max_depth, ": expected at least 1");
  check(max_turns >= 1, "max_turns is ", max_turns, ": expected at least 1");
  propose_tree({rows, drafted, guess, static_cast<int32_t>(max_depth),
                static_cast<int32_t>(max_turns), static_cast<float>(min_log_prob)},
               stream);
}

void stage_nodes_op(const Tensor& answers, const Tensor& slots, const Tensor& drafts,
                    const Tensor& nodes, const Tensor& path_slots, int64_t bos_id) {
  const Stream stream(answers, "answers");
  const GreedyAnswers rows = greedy_answers(stream, answers);
  const DraftRows drafted = draft_rows(stream, drafts, rows);
  const StageNodesProblem problem{rows,
                                  slot_rows(stream, slots, rows, drafted),
                                  drafted,
                                  step_nodes(stream, nodes),
                                  nodes.size(0),
                                  stream.data<int32_t>(path_slots, "path_slots", 1),
                                  static_cast<int32_t>(bos_id)};
  const int64_t least = problem.node_count * rows.capacity;
  check(path_slots.numel() >= least, "path_slots has ", path_slots.numel(),
        " entries: expected at least ", least);
  stage_nodes(problem, stream);
}

void verify_nodes_op(const Tensor& answers, const Tensor& slots, const Tensor& drafts,
                     const Tensor& log_probs, int64_t eos_id) {
  const Stream stream(answers, "answers");
  const GreedyAnswers rows = greedy_answers(stream, answers);
  const DraftRows drafted = draft_rows(stream, drafts, rows);
  const VerifyNodesProblem problem{rows,
                                   slot_rows(stream, slots, rows, drafted),
                                   drafted,
                                   stream.data<const float>(log_probs, "log_probs", 2),
                                   log_probs.size(0),
                                   log_probs.size(1),
                                   static_cast<int32_t>(eos_id)};
  check(problem.vocab_size >= 1, "log_probs has no columns: expected one a token");
  verify_nodes(problem, stream);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("propose_windows", TORCH_BOX(&propose_windows_op));
  library.impl("propose_tree", TORCH_BOX(&propose_tree_op));
  library.impl("stage_nodes", TORCH_BOX(&stage_nodes_op));
  library.impl("verify_nodes", TORCH_BOX(&verify_nodes_op));
}

}  // namespace molspec::cuda
