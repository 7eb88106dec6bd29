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

}  // namespace molspec
