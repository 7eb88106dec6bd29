#include "ops/decoder_step.h"

#include "ops/check.h"

namespace molspec {

Node* nodes_check(const Tensor& nodes) {
  auto* data = checked_data<int32_t>(nodes, "nodes", ScalarType::Int, 2);
  check(nodes.size(0) >= 1 && nodes.size(1) == 4, "nodes has shape [", nodes.size(0), ", ",
        nodes.size(1), "]: expected [at least 1, 4]");
  return reinterpret_cast<Node*>(data);
}

DecoderStepProblem decoder_step_check(const Model& model, const Tensor& nodes,
                                      const Tensor& path_slots, const Tensor& memories,
                                      const Tensor& memory_cache, const Tensor& kv_cache,
                                      const Tensor& workspace, const Tensor& log_probs,
                                      const Tensor& hidden_states) {
  DecoderStepProblem problem{};
  problem.model = &model;
  problem.nodes = reinterpret_cast<const Node*>(
      checked_data<const int32_t>(nodes, "nodes", ScalarType::Int, 2));
  check(nodes.size(1) == 4, "nodes has ", nodes.size(1),
        " columns: expected token id, position, path begin, memory");
  problem.node_count = nodes.size(0);
  problem.path_slots = checked_data<const int32_t>(path_slots, "path_slots", ScalarType::Int, 1);
  problem.path_slot_count = path_slots.numel();
  problem.memories = memories_check(memories);
  problem.memory_cache = static_cast<const float*>(memory_cache.data_ptr());
  problem.kv_cache = static_cast<float*>(kv_cache.data_ptr());
  problem.workspace = checked_workspace(workspace);
  problem.workspace_size = workspace.numel();
  problem.log_probs = checked_data<float>(log_probs, "log_probs", ScalarType::Float, 2);
  check(log_probs.size(0) >= problem.node_count && log_probs.size(1) == model.target_vocab_size,
        "log_probs has shape [", log_probs.size(0), ", ", log_probs.size(1), "]: expected [",
        problem.node_count, ", ", model.target_vocab_size, "]");

  problem.memory_blocks = cache_check(model, memory_cache, "memory_cache");
  problem.kv_blocks = cache_check(model, kv_cache, "kv_cache");
  float* hidden = checked_data<float>(hidden_states, "hidden_states", ScalarType::Float, 2);
  const int64_t slots = problem.kv_blocks * kBlockPositions;
  check(hidden_states.size(0) == 0 ||
            (hidden_states.size(0) >= slots && hidden_states.size(1) == model.d_model),
        "hidden_states has shape [", hidden_states.size(0), ", ", hidden_states.size(1),
        "]: expected no rows or [at least ", slots, ", ", model.d_model, "]");
  problem.hidden_states = hidden_states.size(0) == 0 ? nullptr : hidden;
  return problem;
}

}  // namespace molspec
