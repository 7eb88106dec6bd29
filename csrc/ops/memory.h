// Where the keys and values of encoded queries lie: for every query its length in positions and
// the blocks of the memory cache that hold them, sixteen positions a block.

#pragma once

#include "ops/model.h"

namespace molspec {

struct Memories {
  const int32_t* rows;  // [query, 1 + most_blocks]: length, then block indices
  int64_t count;
  int64_t stride;

  int32_t length(int64_t query) const { return rows[query * stride]; }
  int32_t block_count(int64_t query) const { return (length(query) + 15) / 16; }
  const int32_t* blocks(int64_t query) const { return rows + query * stride + 1; }
};

// The table alone; a row is checked by memory_check where it is used, so rows of queries that have
// left may be out of date.
Memories memories_check(const Tensor& memories);
void memory_check(const Memories& memories, int64_t query, int64_t block_count);

// Blocks of a float32 cache [block, decoder layer, block_size].
int64_t cache_check(const Model& model, const Tensor& cache, const char* name);

}  // namespace molspec
