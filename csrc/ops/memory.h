// Where the keys and values of encoded queries lie: for every query its length in positions and
// the blocks of the memory cache that hold them.

#pragma once

#include "common/anywhere.h"
#include "common/block.h"
#include "ops/fault.h"
#include "ops/model.h"

namespace molspec {

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

// The table alone. A row is looked at where it is used, so rows of queries that have left may be
// out of date.
Memories memories_check(const Tensor& memories);

// Of its blocks every `stride`-th is looked at, from `first` on.
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

// Blocks of a float32 cache [block, decoder layer, block_size].
int64_t cache_check(const Model& model, const Tensor& cache, const char* name);

}  // namespace molspec
