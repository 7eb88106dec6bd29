#include "ops/steps.h"

#include <iterator>

#include "ops/check.h"

namespace molspec {
namespace {

// By kind: "node 3 has token id 17: expected 0 to 12".
struct FaultText {
  const char *subject, *value, *expected;
};
constexpr FaultText kFaultTexts[] = {
    {"", "", ""},
    {"node ", " has token id ", "0 to "},
    {"node ", " has position ", "0 to "},
    {"node ", " has its path at ", "its end below "},
    {"node ", " names slot ", "0 to "},
    {"memory ", " does not exist, a node's memory is ", "0 to "},
    {"memory ", " has length ", "1 to "},
    {"memory ", " names block ", "0 to "},
    {"source ", " spans ", "ids within source_ids, at most "},
    {"memory ", " has length ", "the source's "},
    {"source ", " has id ", "0 to "},
};
static_assert(std::size(kFaultTexts) == Fault::kSourceToken + 1);

// The data of a float32 cache [block, decoder layer, block_size], and its number of blocks.
float* checked_cache(const Model& model, const Tensor& cache, const char* name, int64_t& blocks) {
  float* data = checked_data<float>(cache, name, 3);
  const auto layers = static_cast<int64_t>(model.decoder.layers.size());
  check(cache.size(1) == layers && cache.size(2) == model.block_size(), name, " has shape ",
        Shape{cache}, ": expected [blocks, ", layers, ", ", model.block_size(), "]");
  blocks = cache.size(0);
  return data;
}

// Checks the table alone. Its rows are checked where they are used, so rows of finished queries may
// be out of date.
Memories checked_memories(const Tensor& memories) {
  const auto* rows = checked_data<const int32_t>(memories, "memories", 2);
  check(memories.size(1) >= 2, "memories has ", memories.size(1),
        " columns: expected a length and at least one block");
  return {rows, memories.size(0), memories.size(1)};
}

}  // namespace

void refuse(const Fault& fault) {
  const FaultText& text = kFaultTexts[fault.kind];
  check(fault.kind == Fault::kNone, text.subject, fault.index, text.value, fault.value,
        ": expected ", text.expected, fault.expected);
}

EncodeProblem encode_check(const Model& model, const Tensor& source_ids,
                           const Tensor& source_offsets, const Tensor& memories,
                           const Tensor& memory_cache, const Tensor& workspace) {
  EncodeProblem problem{};
  problem.model = &model;
  problem.source_ids = checked_data<const int32_t>(source_ids, "source_ids", 1);
  problem.id_count = source_ids.numel();
  problem.source_offsets = checked_data<const int32_t>(source_offsets, "source_offsets", 1);
  problem.query_count = source_offsets.numel() - 1;
  problem.memories = checked_memories(memories);
  problem.memory_cache = checked_cache(model, memory_cache, "memory_cache", problem.memory_blocks);
  problem.workspace = checked_workspace(workspace);
  problem.workspace_size = workspace.numel();
  check(problem.query_count >= 0 && problem.query_count <= problem.memories.count,
        "source_offsets has ", source_offsets.numel(), " entries: expected 1 to ",
        problem.memories.count + 1);
  return problem;
}

DecoderStepProblem decoder_step_check(const Model& model, const Tensor& nodes,
                                      const Tensor& path_slots, const Tensor& memories,
                                      const Tensor& memory_cache, const Tensor& kv_cache,
                                      const Tensor& workspace, const Tensor& log_probs,
                                      const Tensor& hidden_states) {
  DecoderStepProblem problem{};
  problem.model = &model;
  problem.nodes = reinterpret_cast<const Node*>(checked_data<const int32_t>(nodes, "nodes", 2));
  check(nodes.size(1) == 4, "nodes has ", nodes.size(1),
        " columns: expected token id, position, path begin, memory");
  problem.node_count = nodes.size(0);
  problem.path_slots = checked_data<const int32_t>(path_slots, "path_slots", 1);
  problem.path_slot_count = path_slots.numel();
  problem.memories = checked_memories(memories);
  problem.memory_cache = checked_cache(model, memory_cache, "memory_cache", problem.memory_blocks);
  problem.kv_cache = checked_cache(model, kv_cache, "kv_cache", problem.kv_blocks);
  problem.workspace = checked_workspace(workspace);
  problem.workspace_size = workspace.numel();
  problem.log_probs = checked_data<float>(log_probs, "log_probs", 2);
  check(log_probs.size(0) >= problem.node_count && log_probs.size(1) == model.target_vocab_size,
        "log_probs has shape ", Shape{log_probs}, ": expected [", problem.node_count, ", ",
        model.target_vocab_size, "]");
  float* hidden = checked_data<float>(hidden_states, "hidden_states", 2);
  const int64_t slots = problem.kv_blocks * kBlockPositions;
  check(hidden_states.size(0) == 0 ||
            (hidden_states.size(0) >= slots && hidden_states.size(1) == model.d_model),
        "hidden_states has shape ", Shape{hidden_states}, ": expected no rows or [at least ", slots,
        ", ", model.d_model, "]");
  problem.hidden_states = hidden_states.size(0) == 0 ? nullptr : hidden;
  return problem;
}

}  // namespace molspec
