// The operators of rounds on a device. They neither wait nor allocate, so a round can be captured.
// Types and shapes are checked here; the contents of tensors are the device's own.

#include <torch/csrc/stable/library.h>

#include <string>
#include <vector>

#include "cuda/rounds/beam_rows.h"
#include "cuda/rounds/greedy_rows.h"
#include "cuda/stream.h"

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
            guess.state_stride >= kGuessPlaceBytes && guess.state_stride % 8 == 0,
        "states has shape ", Shape{states}, ": expected [", query_count, ", ", state_count,
        ", a multiple of 8, at least ", kGuessPlaceBytes, "]");
  return guess;
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

BeamTrees beam_trees(const Stream& stream, const Tensor& trees, const Tensor& used_nodes,
                     const Tensor& path_slots, const Tensor& plans, int64_t queries,
                     int64_t beam_size) {
  BeamTrees rows{};
  rows.path_slots = stream.data<int32_t>(path_slots, "path_slots", 3);
  rows.node_count = path_slots.size(1);
  rows.capacity = path_slots.size(2);
  const bool paths_fit = path_slots.size(0) == queries && rows.node_count % kBlockPositions == 0 &&
                         rows.block_count() <= kMostBeamBlocks && rows.capacity >= 2 &&
                         rows.capacity % 2 == 0 && path_slots.numel() <= INT32_MAX;
  check(paths_fit, "path_slots has shape ", Shape{path_slots}, ": expected [", queries,
        ", a multiple of ", kBlockPositions, " to ", kBlockPositions * kMostBeamBlocks,
        ", an even number of positions]");
  rows.trees = reinterpret_cast<BeamNode*>(stream.data<int32_t>(trees, "trees", 3));
  constexpr int64_t kFields = sizeof(BeamNode) / sizeof(int32_t);
  check(trees.size(0) == queries && trees.size(1) == rows.node_count && trees.size(2) == kFields,
        "trees has shape ", Shape{trees}, ": expected [", queries, ", ", rows.node_count, ", ",
        kFields, "]");
  rows.used = stream.data<int32_t>(used_nodes, "used_nodes", 2);
  check(used_nodes.size(0) == queries && used_nodes.size(1) == rows.block_count(),
        "used_nodes has shape ", Shape{used_nodes}, ": expected [", queries, ", ",
        rows.block_count(), "]");
  rows.plans = stream.data<int32_t>(plans, "plans", 2);
  rows.plan_limit = plans.size(1);
  check(plans.size(0) == queries && rows.plan_limit >= beam_size, "plans has shape ", Shape{plans},
        ": expected [", queries, ", at least ", beam_size, "]");
  return rows;
}

// The tensors of a beam search; only some operators take those other than `beams`.
class Arguments {
 public:
  Arguments(const Tensors& beams, int64_t beam_size)
      : stream_(first_of(beams), "answers"), rows_(beam_rows(beams, beam_size)) {}

  const Stream& stream() const { return stream_; }
  const BeamRows& rows() const { return rows_; }
  int64_t query_count() const { return rows_.answers.query_count; }

  BestTokens best(const Tensors& best) const {
    check_count(best, 2, "best", "best_ids, best_log_probs");
    const BestTokens tokens{stream_.data<int32_t>(best[0], "best_ids", 2),
                            stream_.data<float>(best[1], "best_log_probs", 2),
                            rows_.answers.candidate_count()};
    const int64_t slots = query_count() * rows_.trees.node_count;
    for (const int i : {0, 1})
      check(best[i].size(0) == slots && best[i].size(1) == tokens.count,
            i ? "best_log_probs" : "best_ids", " has shape ", Shape{best[i]}, ": expected [", slots,
            ", ", tokens.count, "]");
    return tokens;
  }
  const double* length_norms(const Tensor& length_norms) const {
    const auto* data = stream_.data<const double>(length_norms, "length_norms", 1);
    check(length_norms.numel() == rows_.trees.capacity, "length_norms has ", length_norms.numel(),
          " entries: expected ", rows_.trees.capacity);
    return data;
  }
  // Checks that a tree has room for the paths of all hypotheses and the reserve.
  void check_room(int64_t lookahead_steps) const {
    check(lookahead_steps >= 0, "lookahead_steps is ", lookahead_steps, ": expected at least 0");
    const int64_t least =
        rows_.answers.place_count * rows_.trees.capacity + rows_.reserve(lookahead_steps);
    check(rows_.trees.node_count >= least, "path_slots has ", rows_.trees.node_count,
          " nodes a query: expected at least ", least);
  }

 private:
  static const Tensor& first_of(const Tensors& beams) {
    check_count(beams, 5, "beams", "answers, trees, used_nodes, path_slots, plans");
    return beams[0];
  }
  BeamRows beam_rows(const Tensors& beams, int64_t beam_size) const {
    check(beam_size >= 1 && beam_size <= kWidestBeam, "beam_size is ", beam_size,
          ": expected 1 to ", kWidestBeam);
    auto* data = stream_.data<uint8_t>(beams[0], "answers", 2);
    const int64_t queries = beams[0].size(0), stride = beams[0].size(1);
    const BeamTrees trees =
        beam_trees(stream_, beams[1], beams[2], beams[3], beams[4], queries, beam_size);
    constexpr int64_t kPlace = sizeof(BeamPlace), kId = sizeof(int32_t);
    const int64_t ids = beam_size * trees.capacity * kId;
    const int64_t in_beam = static_cast<int64_t>(sizeof(BeamAnswer)) + beam_size * kPlace + ids;
    const int64_t apart = in_beam + beam_size * kPlace;
    check(stride == in_beam || stride == apart, "answers has rows of ", stride, " bytes: expected ",
          in_beam, " or ", apart);
    const int64_t places = stride == apart ? 2 * beam_size : beam_size;
    return {{data, queries, stride, beam_size, places, trees.capacity}, trees};
  }

  Stream stream_;
  BeamRows rows_;
};

void stage_beams_op(const Tensors& beams, const Tensor& nodes, int64_t beam_size, int64_t bos_id) {
  const Arguments arguments(beams, beam_size);
  stage_beams({arguments.rows(), step_nodes(arguments.stream(), nodes), nodes.size(0),
               static_cast<int32_t>(bos_id)},
              arguments.stream());
}

void rank_tokens_op(const Tensor& nodes, const Tensor& path_slots, const Tensor& log_probs,
                    const Tensor& best_ids, const Tensor& best_log_probs) {
  const Stream stream(nodes, "nodes");
  const RankTokensProblem problem{
      step_nodes(stream, nodes),
      stream.data<const int32_t>(path_slots, "path_slots", path_slots.dim()),
      stream.data<const float>(log_probs, "log_probs", 2),
      stream.data<int32_t>(best_ids, "best_ids", 2),
      stream.data<float>(best_log_probs, "best_log_probs", 2),
      nodes.size(0),
      log_probs.size(1),
      best_ids.size(1)};
  check(log_probs.size(0) == problem.node_count && problem.vocab_size >= 1, "log_probs has shape ",
        Shape{log_probs}, ": expected [", problem.node_count, ", at least 1]");
  check(problem.count >= 1, "best_ids has shape ", Shape{best_ids},
        ": expected [slots, at least 1]");
  check(best_log_probs.size(0) == best_ids.size(0) && best_log_probs.size(1) == problem.count,
        "best_log_probs has shape ", Shape{best_log_probs}, ": expected that of best_ids, ",
        Shape{best_ids});
  rank_tokens(problem, stream);
}

void replay_beams_op(const Tensors& beams, const Tensors& best, const Tensor& length_norms,
                     int64_t beam_size, int64_t eos_id) {
  const Arguments arguments(beams, beam_size);
  arguments.check_room(0);
  replay_beams({arguments.rows(), arguments.best(best), arguments.length_norms(length_norms),
                static_cast<int32_t>(eos_id)},
               arguments.stream());
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("propose_tree", TORCH_BOX(&propose_tree_op));
  library.impl("stage_nodes", TORCH_BOX(&stage_nodes_op));
  library.impl("verify_nodes", TORCH_BOX(&verify_nodes_op));
  library.impl("stage_beams", TORCH_BOX(&stage_beams_op));
  library.impl("rank_tokens", TORCH_BOX(&rank_tokens_op));
  library.impl("replay_beams", TORCH_BOX(&replay_beams_op));
}

}  // namespace molspec::cuda
