#include "ops/encode.h"

#include "ops/check.h"

namespace molspec {

EncodeProblem encode_check(const Model& model, const Tensor& source_ids,
                           const Tensor& source_offsets, const Tensor& memories,
                           const Tensor& memory_cache, const Tensor& workspace) {
  EncodeProblem problem{};
  problem.model = &model;
  problem.source_ids = checked_data<const int32_t>(source_ids, "source_ids", ScalarType::Int, 1);
  problem.source_offsets =
      checked_data<const int32_t>(source_offsets, "source_offsets", ScalarType::Int, 1);
  problem.query_count = source_offsets.numel() - 1;
  problem.memories = memories_check(memories);
  problem.memory_cache = static_cast<float*>(memory_cache.data_ptr());
  problem.workspace = checked_data<uint8_t>(workspace, "workspace", ScalarType::Byte, 1);
  problem.workspace_size = workspace.numel();

  const int64_t blocks = cache_check(model, memory_cache, "memory_cache");
  check(problem.query_count >= 0 && problem.query_count <= problem.memories.count,
        "source_offsets has ", source_offsets.numel(), " entries: expected 1 to ",
        problem.memories.count + 1);
  for (int64_t i = 0; i < problem.query_count; ++i) {
    const int64_t begin = problem.source_offsets[i], end = problem.source_offsets[i + 1];
    check(begin >= 0 && end <= source_ids.numel() && end - begin <= model.max_positions,
          "source ", i, " spans ", begin, " to ", end, ": expected at most ", model.max_positions,
          " of ", source_ids.numel(), " ids");
    memory_check(problem.memories, i, blocks);
    check(end - begin == problem.memories.length(i), "memory ", i, " has length ",
          problem.memories.length(i), ": expected the source's ", end - begin);
    for (int64_t t = begin; t < end; ++t)
      check(problem.source_ids[t] >= 0 && problem.source_ids[t] < model.source_vocab_size,
            "source id ", problem.source_ids[t], ": expected 0 to ", model.source_vocab_size - 1);
  }
  return problem;
}

}  // namespace molspec
