// encode: source ids -> the memory's keys and values of every decoder layer, in cache blocks.

#pragma once

#include "ops/memory.h"
#include "ops/model.h"

namespace molspec {

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

// What the values of a source are held against: a problem's sizes, without its model.
struct SourceLimits {
  int64_t token_count, position_count, id_count, memory_blocks;

  explicit SourceLimits(const EncodeProblem& problem)
      : token_count(problem.model->source_vocab_size),
        position_count(problem.model->max_positions),
        id_count(problem.id_count),
        memory_blocks(problem.memory_blocks) {}
};

// Of the ids and blocks every `stride`-th is looked at, from `first` on: a device shares them out.
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

}  // namespace molspec
