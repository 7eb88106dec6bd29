// The operators of rounds on a device. They neither wait nor allocate, so a round can be captured.
// Types and shapes are checked here; the contents of tensors are the device's own.

#include <torch/csrc/stable/library.h>

#include <vector>

#include "cuda/rounds/beam_rows.h"
#include "cuda/rounds/greedy_rows.h"
#include "cuda/stream.h"
#include "rules/beam.h"

namespace molspec::cuda {
namespace {

Node* step_nodes(const Stream& stream, const Tensor& nodes) {
  auto* data = stream.data<int32_t>(nodes, "nodes", 2);
  check(nodes.size(0) >= 1 && nodes.size(1) == 4, "nodes has shape ", Shape{nodes},
        ": expected [at least 1, 4]");
  return reinterpret_cast<Node*>(data);
}

// -------------------------------------------------------------------------------------- greedy

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
  const int64_t limit = drafts.size(1) / 2;
  check(drafts.size(0) == answers.query_count && drafts.size(1) % 2 == 1 && limit <= kMostTreeNodes,
        "drafts has shape ", Shape{drafts}, ": expected [", answers.query_count,
        ", 1 + 2 * nodes], at most ", kMostTreeNodes, " nodes");
  return {data, limit};
}

SlotRows slot_rows(const Stream& stream, const Tensor& slots, const GreedyAnswers& answers,
                   const DraftRows& drafts) {
  auto* data = stream.data<int32_t>(slots, "slots", 2);
  const int64_t least = answers.capacity + 1 + drafts.limit;
  check(slots.size(0) == answers.query_count && slots.size(1) >= least, "slots has shape ",
        Shape{slots}, ": expected [", answers.query_count, ", at least ", least, "]");
  return {data, slots.size(1)};
}

GuessTensors guess_tensors(const Stream& stream, const Tensor& tables, const Tensor& texts,
                           const Tensor& states, int64_t query_count, int64_t state_count) {
  const GuessTensors guess{stream.data<const uint8_t>(tables, "tables", 1),
                           stream.data<uint8_t>(texts, "texts", 2),
                           stream.data<uint8_t>(states, "states", 3),
                           texts.size(1),
                           states.size(1),
                           states.size(2)};
  constexpr int64_t kHead = sizeof(GuessTables::Head), kTextHead = sizeof(GuessTextRow::Head);
  check(tables.numel() >= kHead, "tables has ", tables.numel(), " bytes: expected at least ",
        kHead);
  check(
      texts.size(0) == query_count && guess.text_stride >= kTextHead && guess.text_stride % 8 == 0,
      "texts has shape ", Shape{texts}, ": expected [", query_count, ", a multiple of 8, at least ",
      kTextHead, "]");
  check(states.size(0) == query_count && guess.state_count == state_count &&
            guess.state_stride >= kGuessCursorBytes && guess.state_stride % 8 == 0,
        "states has shape ", Shape{states}, ": expected [", query_count, ", ", state_count,
        ", a multiple of 8, at least ", kGuessCursorBytes, "]");
  return guess;
}

void propose_tree_op(const Tensor& answers, const Tensor& drafts, const Tensor& tables,
                     const Tensor& texts, const Tensor& states, int64_t max_depth,
                     int64_t max_turns, double min_log_prob) {
  const Stream stream(answers, "answers");
  const GreedyAnswers rows = greedy_answers(stream, answers);
  const DraftRows drafted = draft_rows(stream, drafts, rows);
  check(drafted.limit >= 1, "drafts has no room for nodes: expected at least one");
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
  check(least <= INT32_MAX, "nodes has ", problem.node_count, " rows: expected at most ",
        INT32_MAX / rows.capacity);
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

// --------------------------------------------------------------------------------------- beams

// Tensors of one concept.
using Tensors = std::vector<Tensor>;

void check_count(const Tensors& tensors, size_t count, const char* name, const char* expected) {
  check(tensors.size() == count, name, " has ", tensors.size(), " tensors: expected ", expected);
}

const Tensor& first_of(const Tensors& beams) {
  check_count(beams, 3, "beams", "answers, beam_nodes, path_slots");
  return beams[0];
}

BeamAnswers beam_answers(const Stream& stream, const Tensor& answers, int64_t beam_size,
                         int64_t capacity) {
  auto* data = stream.data<uint8_t>(answers, "answers", 2);
  const int64_t stride = answers.size(1);
  constexpr int64_t kHypothesis = sizeof(BeamHypothesis), kId = sizeof(int32_t);
  const int64_t ids = beam_size * capacity * kId;
  const int64_t in_beam = static_cast<int64_t>(sizeof(BeamAnswer)) + beam_size * kHypothesis + ids;
  const int64_t apart = in_beam + beam_size * kHypothesis;
  check(stride == in_beam || stride == apart, "answers has rows of ", stride, " bytes: expected ",
        in_beam, " or ", apart);
  const int64_t kept = stride == apart ? 2 * beam_size : beam_size;
  return {data, answers.size(0), stride, beam_size, kept, capacity};
}

BeamRows beam_rows(const Stream& stream, const Tensors& beams, int64_t beam_size) {
  const Tensor &nodes = beams[1], &path_slots = beams[2];
  check(beam_size >= 1 && beam_size <= kWidestBeam, "beam_size is ", beam_size, ": expected 1 to ",
        kWidestBeam);
  BeamRows rows{};
  rows.path_slots = stream.data<int32_t>(path_slots, "path_slots", 4);
  const int64_t capacity = path_slots.size(3);
  rows.answers = beam_answers(stream, beams[0], beam_size, capacity);
  const int64_t queries = rows.answers.query_count;
  const bool paths_fit = path_slots.size(0) == queries && path_slots.size(1) == 2 &&
                         path_slots.size(2) == beam_size && capacity >= 2 && capacity % 2 == 0 &&
                         path_slots.numel() <= INT32_MAX;
  check(paths_fit, "path_slots has shape ", Shape{path_slots}, ": expected [", queries, ", 2, ",
        beam_size, ", an even number of positions]");
  rows.nodes = reinterpret_cast<BeamNode*>(stream.data<int32_t>(nodes, "beam_nodes", 4));
  rows.lane_size = nodes.size(2);
  const bool nodes_fit = nodes.size(0) == queries && nodes.size(1) == beam_size &&
                         rows.lane_size >= capacity && rows.lane_size % kBlockPositions == 0 &&
                         nodes.size(3) == 2 && nodes.numel() <= INT32_MAX;
  check(nodes_fit, "beam_nodes has shape ", Shape{nodes}, ": expected [", queries, ", ", beam_size,
        ", a multiple of ", kBlockPositions, " from ", capacity, ", 2]");
  return rows;
}

BestTokens best_tokens(const Stream& stream, const Tensors& best) {
  check_count(best, 2, "best", "best_ids, best_log_probs");
  const BestTokens tokens{stream.data<int32_t>(best[0], "best_ids", 2),
                          stream.data<float>(best[1], "best_log_probs", 2), best[0].size(1)};
  check(tokens.count >= 1, "best_ids has shape ", Shape{best[0]}, ": expected [nodes, at least 1]");
  check(best[1].size(0) == best[0].size(0) && best[1].size(1) == tokens.count,
        "best_log_probs has shape ", Shape{best[1]}, ": expected that of best_ids, ",
        Shape{best[0]});
  return tokens;
}

void stage_beams_op(const Tensors& beams, const Tensor& nodes, int64_t beam_size, int64_t bos_id) {
  const Stream stream(first_of(beams), "answers");
  stage_beams({beam_rows(stream, beams, beam_size), step_nodes(stream, nodes), nodes.size(0),
               static_cast<int32_t>(bos_id)},
              stream);
}

void rank_tokens_op(const Tensor& nodes, const Tensor& log_probs, const Tensors& best) {
  const Stream stream(nodes, "nodes");
  const RankTokensProblem problem{step_nodes(stream, nodes),
                                  stream.data<const float>(log_probs, "log_probs", 2),
                                  best_tokens(stream, best), nodes.size(0), log_probs.size(1)};
  check(log_probs.size(0) == problem.node_count && problem.vocab_size >= 1, "log_probs has shape ",
        Shape{log_probs}, ": expected [", problem.node_count, ", at least 1]");
  check(best[0].size(0) == problem.node_count, "best_ids has shape ", Shape{best[0]},
        ": expected a row a node, ", problem.node_count);
  rank_tokens(problem, stream);
}

void extend_beams_op(const Tensors& beams, const Tensors& best, const Tensor& length_norms,
                     int64_t beam_size, int64_t eos_id) {
  const Stream stream(first_of(beams), "answers");
  const ExtendBeamsProblem problem{beam_rows(stream, beams, beam_size), best_tokens(stream, best),
                                   stream.data<const double>(length_norms, "length_norms", 1),
                                   static_cast<int32_t>(eos_id)};
  const BeamAnswers& answers = problem.rows.answers;
  const int32_t count =
      candidate_count(static_cast<int32_t>(answers.beam_size), answers.finished_apart());
  check(problem.best.count == count, "best_ids has shape ", Shape{best[0]}, ": expected [nodes, ",
        count, "]");
  check(length_norms.numel() == answers.capacity, "length_norms has ", length_norms.numel(),
        " entries: expected ", answers.capacity);
  extend_beams(problem, stream);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("propose_tree", TORCH_BOX(&propose_tree_op));
  library.impl("stage_nodes", TORCH_BOX(&stage_nodes_op));
  library.impl("verify_nodes", TORCH_BOX(&verify_nodes_op));
  library.impl("stage_beams", TORCH_BOX(&stage_beams_op));
  library.impl("rank_tokens", TORCH_BOX(&rank_tokens_op));
  library.impl("extend_beams", TORCH_BOX(&extend_beams_op));
}

}  // namespace molspec::cuda
