#include "ops/memory.h"

#include "ops/check.h"

namespace molspec {

int64_t cache_check(const Model& model, const Tensor& cache, const char* name) {
  checked_data<float>(cache, name, ScalarType::Float, 3);
  const auto layers = static_cast<int64_t>(model.decoder.layers.size());
  check(cache.size(1) == layers && cache.size(2) == model.block_size(), name, " has shape [",
        cache.size(0), ", ", cache.size(1), ", ", cache.size(2), "]: expected [blocks, ", layers,
        ", ", model.block_size(), "]");
  return cache.size(0);
}

Memories memories_check(const Tensor& memories) {
  const auto* rows = checked_data<const int32_t>(memories, "memories", ScalarType::Int, 2);
  check(memories.size(1) >= 2, "memories has ", memories.size(1),
        " columns: expected a length and at least one block");
  return {rows, memories.size(0), memories.size(1)};
}

void memory_check(const Memories& memories, int64_t query, int64_t block_count) {
  check(query >= 0 && query < memories.count, "memory is ", query, ": expected 0 to ",
        memories.count - 1);
  const int64_t length = memories.length(query);
  check(length >= 1 && length <= (memories.stride - 1) * 16, "memory ", query, " has length ",
        length, ": expected 1 to ", (memories.stride - 1) * 16);
  for (int64_t i = 0; i < memories.block_count(query); ++i) {
    const int32_t block = memories.blocks(query)[i];
    check(block >= 0 && block < block_count, "memory ", query, " names block ", block,
          ": expected 0 to ", block_count - 1);
  }
}

}  // namespace molspec
