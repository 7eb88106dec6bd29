// encode: source ids -> the memory's keys and values of every decoder layer, in cache blocks.

#pragma once

#include "ops/memory.h"
#include "ops/model.h"

namespace molspec {

struct EncodeProblem {
  const Model* model;
  int64_t query_count;
  const int32_t* source_ids;      // all sources, one behind the other, BOS and EOS included
  const int32_t* source_offsets;  // [query_count + 1] into source_ids
  Memories memories;              // row i belongs to source i
  float* memory_cache;            // [block, decoder layer, block_size]
  uint8_t* workspace;
  int64_t workspace_size;
};

EncodeProblem encode_check(const Model& model, const Tensor& source_ids,
                           const Tensor& source_offsets, const Tensor& memories,
                           const Tensor& memory_cache, const Tensor& workspace);

}  // namespace molspec
