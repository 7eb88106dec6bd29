// encode on the CPU: one query at a time, so that no query ever sees another's padding.

#include "ops/encode.h"

#include <torch/csrc/stable/library.h>

#include <algorithm>

#include "cpu/layers.h"

namespace molspec::cpu {
namespace {

void encoder_layer(const Layers& layers, const Model& model, const Layer& layer, int rows,
                   const LayerCache& cache, const RowKeys* keys) {
  layers.project_self(layer.self_attention, rows);
  for (int row = 0; row < rows; ++row) layers.store(cache, row, model.attention_width(), row);
  layers.attend(layer.self_attention, rows, cache, keys, model.query_key_value_stride());
  layers.feed_forward(layer, rows);
}

void encode_query(const EncodeProblem& problem, const Workspace& work, int64_t query) {
  const Model& model = *problem.model;
  const int32_t* source = problem.source_ids + problem.source_offsets[query];
  const int rows = problem.memories.length(query);
  const Layers layers(model, work);

  const int32_t block_count = problem.memories.block_count(query);
  for (int32_t block = 0; block < block_count; ++block) work.blocks[block] = block;
  for (int row = 0; row < rows; ++row) {
    layers.embed(model.encoder, row, source[row], row);
    work.self_keys[row] = {work.blocks, block_count, nullptr, rows,
                           model.relative_bias(model.encoder, row)};
  }
  layers.embedding_norm(model.encoder, rows);
  const LayerCache encoder_cache{work.encoder_cache, model.block_size()};
  for (const Layer& layer : model.encoder.layers)
    encoder_layer(layers, model, layer, rows, encoder_cache, work.self_keys);
  if (model.final_norm) layers.norm(model.encoder.norm, rows, work.hidden, work.hidden);

  const int64_t block_stride =
      static_cast<int64_t>(model.decoder.layers.size()) * model.block_size();
  float* base = problem.memory_cache;
  const int32_t* blocks = problem.memories.blocks(query);
  for (const Layer& layer : model.decoder.layers) {
    layers.project_memory(layer.cross_attention, rows);
    for (int row = 0; row < rows; ++row)
      layers.store({base, block_stride}, row, 0, blocks[row / 16] * 16 + row % 16);
    base += model.block_size();
  }
}

void encode(const EncodeProblem& problem) {
  int64_t longest = 1;
  for (int64_t i = 0; i < problem.query_count; ++i)
    longest = std::max<int64_t>(longest, problem.memories.length(i));
  int64_t size;
  const Workspace work =
      Workspace::carve(*problem.model, longest, longest, problem.workspace, &size);
  check(size <= problem.workspace_size, "workspace has ", problem.workspace_size,
        " bytes: expected ", size);
  for (int64_t i = 0; i < problem.query_count; ++i) encode_query(problem, work, i);
}

void values_check(const EncodeProblem& problem) {
  const SourceLimits limits(problem);
  for (int64_t i = 0; i < problem.query_count; ++i)
    refuse(source_fault(problem.source_ids, problem.source_offsets, static_cast<int32_t>(i),
                        problem.memories, limits));
}

void encode_op(const Tensor& weights, const Tensor& table, const Tensor& source_ids,
               const Tensor& source_offsets, const Tensor& memories, const Tensor& memory_cache,
               const Tensor& workspace) {
  const EncodeProblem problem = encode_check(read_cpu_model(weights, table), source_ids,
                                             source_offsets, memories, memory_cache, workspace);
  values_check(problem);
  encode(problem);
}

int64_t workspace_size_op(const Tensor& weights, const Tensor& table, int64_t rows,
                          int64_t positions) {
  check(rows >= 1, "rows is ", rows, ": expected at least 1");
  check(positions >= 1, "positions is ", positions, ": expected at least 1");
  int64_t size;
  Workspace::carve(read_cpu_model(weights, table), rows, positions, nullptr, &size);
  return size;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("encode", TORCH_BOX(&encode_op));
  library.impl("workspace_size", TORCH_BOX(&workspace_size_op));
}

}  // namespace molspec::cpu
