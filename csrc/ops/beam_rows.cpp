#include "ops/beam_rows.h"

#include "ops/check.h"

namespace molspec {
namespace {

BeamTrees beam_trees_check(const Tensor& trees, const Tensor& used_nodes, const Tensor& path_slots,
                           const Tensor& plans, int64_t queries, int64_t beam_size) {
  BeamTrees rows{};
  rows.path_slots = checked_data<int32_t>(path_slots, "path_slots", ScalarType::Int, 3);
  rows.node_count = path_slots.size(1);
  rows.capacity = path_slots.size(2);
  const bool paths_fit = path_slots.size(0) == queries && rows.node_count % kBlockPositions == 0 &&
                         rows.block_count() <= kMostBeamBlocks && rows.capacity >= 2 &&
                         rows.capacity % 2 == 0 && path_slots.numel() <= INT32_MAX;
  check(paths_fit, "path_slots has shape [", path_slots.size(0), ", ", rows.node_count, ", ",
        rows.capacity, "]: expected [", queries, ", a multiple of ", kBlockPositions, " to ",
        kBlockPositions * kMostBeamBlocks, ", an even number of positions]");
  rows.trees =
      reinterpret_cast<BeamNode*>(checked_data<int32_t>(trees, "trees", ScalarType::Int, 3));
  constexpr int64_t kFields = sizeof(BeamNode) / sizeof(int32_t);
  check(trees.size(0) == queries && trees.size(1) == rows.node_count && trees.size(2) == kFields,
        "trees has shape [", trees.size(0), ", ", trees.size(1), ", ", trees.size(2),
        "]: expected [", queries, ", ", rows.node_count, ", ", kFields, "]");
  rows.used = checked_data<int32_t>(used_nodes, "used_nodes", ScalarType::Int, 2);
  check(used_nodes.size(0) == queries && used_nodes.size(1) == rows.block_count(),
        "used_nodes has shape [", used_nodes.size(0), ", ", used_nodes.size(1), "]: expected [",
        queries, ", ", rows.block_count(), "]");
  rows.plans = checked_data<int32_t>(plans, "plans", ScalarType::Int, 2);
  rows.plan_limit = plans.size(1);
  check(plans.size(0) == queries && rows.plan_limit >= beam_size, "plans has shape [",
        plans.size(0), ", ", rows.plan_limit, "]: expected [", queries, ", at least ", beam_size,
        "]");
  return rows;
}

}  // namespace

BeamRows beam_rows_check(const Tensors& beams, int64_t beam_size) {
  check_count(beams, "beams", kBeamTensors);
  const Tensor &answers = beams[0], &trees = beams[1], &used_nodes = beams[2],
               &path_slots = beams[3], &plans = beams[4];
  check(beam_size >= 1 && beam_size <= kWidestBeam, "beam_size is ", beam_size, ": expected 1 to ",
        kWidestBeam);
  BeamRows rows{};
  auto* data = checked_data<uint8_t>(answers, "answers", ScalarType::Byte, 2);
  const int64_t queries = answers.size(0), stride = answers.size(1);
  rows.trees = beam_trees_check(trees, used_nodes, path_slots, plans, queries, beam_size);
  constexpr int64_t kPlace = sizeof(BeamPlace), kId = sizeof(int32_t);
  const int64_t ids = beam_size * rows.trees.capacity * kId;
  const int64_t in_beam = static_cast<int64_t>(sizeof(BeamAnswer)) + beam_size * kPlace + ids;
  const int64_t apart = in_beam + beam_size * kPlace;
  check(stride == in_beam || stride == apart, "answers has rows of ", stride, " bytes: expected ",
        in_beam, " or ", apart);
  const int64_t places = stride == apart ? 2 * beam_size : beam_size;
  rows.answers = {data, queries, stride, beam_size, places, rows.trees.capacity};
  return rows;
}

BestTokens best_tokens_check(const Tensors& tensors, const BeamRows& rows) {
  check_count(tensors, "best", kBestTensors);
  const Tensor &best_ids = tensors[0], &best_log_probs = tensors[1];
  BestTokens best{};
  best.ids = checked_data<int32_t>(best_ids, "best_ids", ScalarType::Int, 2);
  best.log_probs = checked_data<float>(best_log_probs, "best_log_probs", ScalarType::Float, 2);
  best.count = rows.answers.candidate_count();
  const int64_t slots = rows.answers.query_count * rows.trees.node_count;
  for (const auto& [tensor, name] :
       {std::pair(&best_ids, "best_ids"), std::pair(&best_log_probs, "best_log_probs")})
    check(tensor->size(0) == slots && tensor->size(1) == best.count, name, " has shape [",
          tensor->size(0), ", ", tensor->size(1), "]: expected [", slots, ", ", best.count, "]");
  return best;
}

const double* length_norms_check(const Tensor& length_norms, const BeamRows& rows) {
  const auto* data =
      checked_data<const double>(length_norms, "length_norms", ScalarType::Double, 1);
  check(length_norms.numel() == rows.trees.capacity, "length_norms has ", length_norms.numel(),
        " entries: expected ", rows.trees.capacity);
  return data;
}

void check_room(const BeamRows& rows, int64_t lookahead_steps) {
  check(lookahead_steps >= 0, "lookahead_steps is ", lookahead_steps, ": expected at least 0");
  const int64_t least =
      rows.answers.place_count * rows.trees.capacity + rows.reserve(lookahead_steps);
  check(rows.trees.node_count >= least, "path_slots has ", rows.trees.node_count,
        " nodes a query: expected at least ", least);
}

}  // namespace molspec
