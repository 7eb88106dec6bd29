// decoder_step: one pass of the decoder over new nodes of the token tree -> log-probabilities.
//
// A node is a token behind a path of earlier nodes. Its keys and values are stored in the slot of
// the cache that ends its path; it attends to the slots of its path, in that order, and to the
// memory of its query. Parents stand before their children.

#pragma once

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

struct DecoderStepProblem {
  const Model* model;
  int64_t node_count;
  const Node* nodes;
  const int32_t* path_slots;  // slot = block * 16 + position in block
  Memories memories;
  const float* memory_cache;  // [block, decoder layer, block_size]
  float* kv_cache;            // [block, decoder layer, block_size]
  uint8_t* workspace;
  int64_t workspace_size;
  float* log_probs;  // [node, target_vocab_size]
};

DecoderStepProblem decoder_step_check(const Model& model, const Tensor& nodes,
                                      const Tensor& path_slots, const Tensor& memories,
                                      const Tensor& memory_cache, const Tensor& kv_cache,
                                      const Tensor& workspace, const Tensor& log_probs);

}  // namespace molspec
