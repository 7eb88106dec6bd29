// decoder_step: one pass of the decoder over new nodes of the token tree -> log-probabilities.
//
// A node is a token after a path of earlier nodes. Its keys and values are stored in the slot of
// the cache that ends its path; it attends to the slots of its path, in that order, and to the
// memory of its query. Parents stand before their children. Where drafters ask for it, the last
// hidden state of a node, of which its log-probabilities are made, is kept by its slot too.

#pragma once

#include "common/prepared_step.h"
#include "ops/memory.h"
#include "ops/model.h"

namespace molspec {

struct Node {
  int32_t token_id;
  int32_t position;    // 0 for BOS; the path has position + 1 slots
  int32_t path_begin;  // into path_slots
  int32_t memory;      // row of the memory table
};
static_assert(sizeof(Node) == 16, "a row of the nodes tensor");
// The memory of a node that is none: a gap, which a device passes over.
constexpr int32_t kAbsent = -1;

struct DecoderStepProblem {
  const Model* model;
  int64_t node_count;
  const Node* nodes;
  const int32_t* path_slots;  // slot = block * kBlockPositions + position in block
  int64_t path_slot_count;
  Memories memories;
  const float* memory_cache;  // [block, decoder layer, block_size]
  int64_t memory_blocks;
  float* kv_cache;  // [block, decoder layer, block_size]
  int64_t kv_blocks;
  uint8_t* workspace;
  int64_t workspace_size;
  float* log_probs;      // [node, target_vocab_size]
  float* hidden_states;  // [slot, d_model], or null
};

// Types and shapes.
DecoderStepProblem decoder_step_check(const Model& model, const Tensor& nodes,
                                      const Tensor& path_slots, const Tensor& memories,
                                      const Tensor& memory_cache, const Tensor& kv_cache,
                                      const Tensor& workspace, const Tensor& log_probs,
                                      const Tensor& hidden_states);

// All of a step but its nodes, checked: as the bytes of a tensor for callers without torch.
struct PreparedStep {
  PackedModel packed;
  DecoderStepProblem problem;  // without its model, which is a thread's own
  int64_t row_count;           // of log_probs
};
static_assert(sizeof(PreparedStep) <= kPreparedStepBytes);

// What the values of a node are held against: a problem's sizes, without its model.
struct NodeLimits {
  int64_t token_count, position_count, path_slot_count, slot_count, memory_blocks;

  explicit NodeLimits(const DecoderStepProblem& problem)
      : token_count(problem.model->target_vocab_size),
        position_count(problem.model->max_positions),
        path_slot_count(problem.path_slot_count),
        slot_count(problem.kv_blocks * kBlockPositions),
        memory_blocks(problem.memory_blocks) {}
};

// Of the path's slots every `stride`-th is looked at, from `first` on: a device shares them out.
inline MOLSPEC_ANYWHERE Fault node_fault(const Node& node, int32_t index, const int32_t* path_slots,
                                         const NodeLimits& limits, int first = 0, int stride = 1) {
  if (node.token_id < 0 || node.token_id >= limits.token_count)
    return {Fault::kToken, index, node.token_id, limits.token_count - 1};
  if (node.position < 0 || node.position >= limits.position_count)
    return {Fault::kPosition, index, node.position, limits.position_count - 1};
  const int64_t path_end = static_cast<int64_t>(node.path_begin) + node.position;
  if (node.path_begin < 0 || path_end >= limits.path_slot_count)
    return {Fault::kPath, index, node.path_begin, limits.path_slot_count};
  for (int64_t t = node.path_begin + first; t <= path_end; t += stride)
    if (path_slots[t] < 0 || path_slots[t] >= limits.slot_count)
      return {Fault::kSlot, index, path_slots[t], limits.slot_count - 1};
  return {};
}

}  // namespace molspec
