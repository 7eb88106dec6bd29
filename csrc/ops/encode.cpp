#include "ops/encode.h"

#include "ops/check.h"

namespace molspec {

EncodeProblem encode_check(const Model& model, const Tensor& source_ids,
                           const Tensor& source_offsets, const Tensor& memories,
                           const Tensor& memory_cache, const Tensor& workspace) {
  EncodeProblem problem{};
  problem.model = &model;
  problem.source_ids = checked_data<const int32_t>(source_ids, "source_ids", ScalarType::Int, 1);
  problem.id_count = source_ids.numel();
  problem.source_offsets =
      checked_data<const int32_t>(source_offsets, "source_offsets", ScalarType::Int, 1);
  problem.query_count = source_offsets.numel() - 1;
  problem.memories = memories_check(memories);
  problem.memory_cache = static_cast<float*>(memory_cache.data_ptr());
  problem.workspace = checked_workspace(workspace);
  problem.workspace_size = workspace.numel();

  problem.memory_blocks = cache_check(model, memory_cache, "memory_cache");
  check(problem.query_count >= 0 && problem.query_count <= problem.memories.count,
        "source_offsets has ", source_offsets.numel(), " entries: expected 1 to ",
        problem.memories.count + 1);
  return problem;
}

}  // namespace molspec
