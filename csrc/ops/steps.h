// The engine's operators: their definitions, their problems, and the faults that a problem's values
// may have, on the host or on a device.

#pragma once

#include "common/anywhere.h"
#include "common/limits.h"
#include "common/prepared_step.h"
#include "ops/model.h"

namespace molspec {

// A fault of one of an operator's values, found on the host or on a device. The host makes the
// text.
struct Fault {
  enum Kind : int32_t {
    kNone,
    kToken,
    kPosition,
    kPath,
    kSlot,
    kMemory,
    kMemoryLength,
    kMemoryBlock,
    kSourceSpan,
    kSourceLength,
    kSourceToken,
  };
  int32_t kind = kNone;
  int32_t index = 0;  // of the node, the memory or the source
  int64_t value = 0;
  int64_t expected = 0;  // the maximum, or the right value
};

// Throws std::runtime_error if there is a fault: "node 3 has token id 17: expected 0 to 12".
void refuse(const Fault& fault);

// Where the keys and values of encoded queries are: for every query its length in positions and its
// blocks of the memory cache.
struct Memories {
  const int32_t* rows;  // [query, 1 + most_blocks]: length, then block indices
  int64_t count;
  int64_t stride;

  MOLSPEC_ANYWHERE int32_t length(int64_t query) const { return rows[query * stride]; }
  MOLSPEC_ANYWHERE int32_t block_count(int64_t query) const {
    return (length(query) + kBlockPositions - 1) / kBlockPositions;
  }
  MOLSPEC_ANYWHERE const int32_t* blocks(int64_t query) const { return rows + query * stride + 1; }
};

// Checks every `stride`-th of its blocks, from `first` on.
inline MOLSPEC_ANYWHERE Fault memory_fault(const Memories& memories, int32_t query,
                                           int64_t cache_blocks, int first = 0, int stride = 1) {
  if (query < 0 || query >= memories.count)
    return {Fault::kMemory, query, query, memories.count - 1};
  const int64_t most = (memories.stride - 1) * kBlockPositions;
  const int64_t length = memories.length(query);
  if (length < 1 || length > most) return {Fault::kMemoryLength, query, length, most};
  for (int32_t i = first; i < memories.block_count(query); i += stride) {
    const int32_t block = memories.blocks(query)[i];
    if (block < 0 || block >= cache_blocks)
      return {Fault::kMemoryBlock, query, block, cache_blocks - 1};
  }
  return {};
}

// encode: source ids -> the memory's keys and values of every decoder layer, in cache blocks.
struct EncodeProblem {
  const Model* model;
  int64_t query_count;
  int64_t id_count;
  const int32_t* source_ids;      // all sources, one after the other, BOS and EOS included
  const int32_t* source_offsets;  // [query_count + 1] into source_ids
  Memories memories;              // row i belongs to source i
  float* memory_cache;            // [block, decoder layer, block_size]
  int64_t memory_blocks;
  uint8_t* workspace;
  int64_t workspace_size;
};

// Types and shapes.
EncodeProblem encode_check(const Model& model, const Tensor& source_ids,
                           const Tensor& source_offsets, const Tensor& memories,
                           const Tensor& memory_cache, const Tensor& workspace);

// The limits for the values of a source: a problem's sizes, without its model.
struct SourceLimits {
  int64_t token_count, position_count, id_count, memory_blocks;

  explicit SourceLimits(const EncodeProblem& problem)
      : token_count(problem.model->source_vocab_size),
        position_count(problem.model->max_positions),
        id_count(problem.id_count),
        memory_blocks(problem.memory_blocks) {}
};

// Checks every `stride`-th of the ids and blocks, from `first` on: threads of a device share them.
inline MOLSPEC_ANYWHERE Fault source_fault(const int32_t* ids, const int32_t* offsets,
                                           int32_t index, const Memories& memories,
                                           const SourceLimits& limits, int first = 0,
                                           int stride = 1) {
  const int64_t begin = offsets[index], end = offsets[index + 1];
  if (begin < 0 || end > limits.id_count || end - begin > limits.position_count)
    return {Fault::kSourceSpan, index, end - begin, limits.position_count};
  const Fault fault = memory_fault(memories, index, limits.memory_blocks, first, stride);
  if (fault.kind != Fault::kNone) return fault;
  if (end - begin != memories.length(index))
    return {Fault::kSourceLength, index, memories.length(index), end - begin};
  for (int64_t i = begin + first; i < end; i += stride)
    if (ids[i] < 0 || ids[i] >= limits.token_count)
      return {Fault::kSourceToken, index, ids[i], limits.token_count - 1};
  return {};
}

// decoder_step: one pass of the decoder over new nodes of the token tree -> log-probabilities.
//
// A node is a token after a path of earlier nodes. Its keys and values are stored in the last slot
// of its path; it attends to the slots of its path, in that order, and to the memory of its query.
// Parents precede their children. For drafters that need it, a node's last hidden state, from which
// its log-probabilities are computed, is stored by its slot too.
struct Node {
  int32_t token_id;
  int32_t position;    // 0 for BOS; the path has position + 1 slots
  int32_t path_begin;  // into path_slots
  int32_t memory;      // row of the memory table
};
static_assert(sizeof(Node) == 16, "a row of the nodes tensor");
// The memory of a gap, a row without a node, which a device skips.
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

// A checked step without its nodes, as the bytes of a tensor, for callers without torch.
struct PreparedStep {
  PackedModel packed;
  DecoderStepProblem problem;  // without its model, which belongs to a thread
  int64_t row_count;           // of log_probs
};
static_assert(sizeof(PreparedStep) <= kPreparedStepBytes);

// The limits for the values of a node: a problem's sizes, without its model.
struct NodeLimits {
  int64_t token_count, position_count, path_slot_count, slot_count, memory_blocks;

  explicit NodeLimits(const DecoderStepProblem& problem)
      : token_count(problem.model->target_vocab_size),
        position_count(problem.model->max_positions),
        path_slot_count(problem.path_slot_count),
        slot_count(problem.kv_blocks * kBlockPositions),
        memory_blocks(problem.memory_blocks) {}
};

// Checks every `stride`-th of the path's slots, from `first` on: threads of a device share them.
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
