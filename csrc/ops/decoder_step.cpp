#include "ops/decoder_step.h"

#include "ops/check.h"

namespace molspec {
namespace {

void node_check(const DecoderStepProblem& problem, int64_t index, int64_t path_slot_count,
                int64_t slot_count) {
  const Node& node = problem.nodes[index];
  const Model& model = *problem.model;
  check(node.token_id >= 0 && node.token_id < model.target_vocab_size, "node ", index,
        " has token id ", node.token_id, ": expected 0 to ", model.target_vocab_size - 1);
  check(node.position >= 0 && node.position < model.max_positions, "node ", index,
        " has position ", node.position, ": expected 0 to ", model.max_positions - 1);
  check(node.path_begin >= 0 &&
            static_cast<int64_t>(node.path_begin) + node.position < path_slot_count,
        "node ", index, " has its path at ", node.path_begin, ": expected ", node.position + 1,
        " of ", path_slot_count, " path slots");
  for (int64_t t = 0; t <= node.position; ++t) {
    const int32_t slot = problem.path_slots[node.path_begin + t];
    check(slot >= 0 && slot < slot_count, "node ", index, " names slot ", slot,
          ": expected 0 to ", slot_count - 1);
  }
}

}  // namespace

DecoderStepProblem decoder_step_check(const Model& model, const Tensor& nodes,
                                      const Tensor& path_slots, const Tensor& memories,
                                      const Tensor& memory_cache, const Tensor& kv_cache,
                                      const Tensor& workspace, const Tensor& log_probs) {
  DecoderStepProblem problem{};
  problem.model = &model;
  problem.nodes = reinterpret_cast<const Node*>(
      checked_data<const int32_t>(nodes, "nodes", ScalarType::Int, 2));
  check(nodes.size(1) == 4, "nodes has ", nodes.size(1),
        " columns: expected token id, position, path begin, memory");
  problem.node_count = nodes.size(0);
  problem.path_slots = checked_data<const int32_t>(path_slots, "path_slots", ScalarType::Int, 1);
  problem.memories = memories_check(memories);
  problem.memory_cache = static_cast<const float*>(memory_cache.data_ptr());
  problem.kv_cache = static_cast<float*>(kv_cache.data_ptr());
  problem.workspace = checked_data<uint8_t>(workspace, "workspace", ScalarType::Byte, 1);
  problem.workspace_size = workspace.numel();
  problem.log_probs = checked_data<float>(log_probs, "log_probs", ScalarType::Float, 2);
  check(log_probs.size(0) >= problem.node_count && log_probs.size(1) == model.target_vocab_size,
        "log_probs has shape [", log_probs.size(0), ", ", log_probs.size(1), "]: expected [",
        problem.node_count, ", ", model.target_vocab_size, "]");

  const int64_t memory_blocks = cache_check(model, memory_cache, "memory_cache");
  const int64_t slots = cache_check(model, kv_cache, "kv_cache") * 16;
  for (int64_t i = 0; i < problem.node_count; ++i) {
    node_check(problem, i, path_slots.numel(), slots);
    if (i == 0 || problem.nodes[i].memory != problem.nodes[i - 1].memory)
      memory_check(problem.memories, problem.nodes[i].memory, memory_blocks);
  }
  return problem;
}

}  // namespace molspec
