// encode on the CPU: one query at a time, so that there is no padding.

#include <torch/csrc/stable/library.h>

#include <algorithm>

#include "cpu/layers.h"
#include "ops/steps.h"

namespace molspec::cpu {
namespace {

// A block of a query's rows that goes through the layers.
class EncoderRows {
 public:
  EncoderRows(const EncodeProblem& problem, const Workspace& work, int64_t query, int first,
              int rows)
      : problem_(problem),
        model_(*problem.model),
        work_(work.from_row(model_, first)),
        layers_(model_, work_),
        query_(query),
        first_(first),
        rows_(rows) {}
  EncoderRows(const EncoderRows&) = delete;  // layers_ refers to work_

  void embed() const {
    const int32_t* source = problem_.source_ids + problem_.source_offsets[query_];
    for (int row = 0; row < rows_; ++row)
      layers_.embed(model_.encoder, row, source[first_ + row], first_ + row);
    layers_.embedding_norm(model_.encoder, rows_);
  }

  void store(size_t layer) const {
    layers_.project(model_.encoder.layers[layer].self_attention, rows_);
    layers_.rotate(rows_);
    for (int row = 0; row < rows_; ++row) work_.slots[row] = first_ + row;
    layers_.store(cache(layer), rows_, model_.attention_width(), work_.slots);
  }

  void attend(size_t layer) const {
    const Layer& weights = model_.encoder.layers[layer];
    layers_.attend(weights.self_attention, rows_, cache(layer), work_.self_keys,
                   model_.relative_bias(weights));
    layers_.feed_forward(weights, rows_);
  }

  // The memory: keys and values for every layer of the decoder.
  void end() const {
    if (model_.final_norm) layers_.norm(model_.encoder.norm, rows_, work_.hidden, work_.hidden);
    const int32_t* blocks = problem_.memories.blocks(query_);
    for (int row = 0; row < rows_; ++row) {
      const int position = first_ + row;
      work_.slots[row] =
          blocks[position / kBlockPositions] * kBlockPositions + position % kBlockPositions;
    }
    LayerCache memory{problem_.memory_cache, model_.block_stride()};
    for (const Layer& layer : model_.decoder.layers) {
      layers_.project_memory(layer.cross_attention, rows_);
      layers_.store(memory, rows_, 0, work_.slots);
      memory.base += model_.block_size();
    }
  }

 private:
  // While some rows attend in a layer, others store for the next one; older ones are not needed.
  LayerCache cache(size_t layer) const {
    const int64_t blocks = (work_.positions + kBlockPositions - 1) / kBlockPositions;
    const int64_t begin = static_cast<int64_t>(layer % 2) * blocks * model_.block_size();
    return {work_.encoder_cache + begin, model_.block_size()};
  }

  const EncodeProblem& problem_;
  const Model& model_;
  const Workspace work_;
  const Layers layers_;
  const int64_t query_;
  const int first_;
  const int rows_;
};

void encode_query(const EncodeProblem& problem, const Workspace& work, int64_t query) {
  const Model& model = *problem.model;
  const int rows = problem.memories.length(query);
  const int32_t block_count = problem.memories.block_count(query);
  for (int32_t block = 0; block < block_count; ++block) work.blocks[block] = block;
  for (int row = 0; row < rows; ++row)
    work.self_keys[row] = {work.blocks, block_count, nullptr, rows, row};
  through_layers(model.encoder.layers.size(), rows, [&](int first, int count) {
    return EncoderRows(problem, work, query, first, count);
  });
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
  const EncodeProblem problem = encode_check(read_model(packed_check(weights, table)), source_ids,
                                             source_offsets, memories, memory_cache, workspace);
  values_check(problem);
  encode(problem);
}

int64_t workspace_size_op(const Tensor& weights, const Tensor& table, int64_t rows,
                          int64_t positions) {
  check(rows >= 1 && rows <= kMostSize, "rows is ", rows, ": expected 1 to ", kMostSize);
  check(positions >= 1 && positions <= kMostSize, "positions is ", positions, ": expected 1 to ",
        kMostSize);
  int64_t size;
  Workspace::carve(read_model(packed_check(weights, table)), rows, positions, nullptr, &size);
  return size;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("encode", TORCH_BOX(&encode_op));
  library.impl("workspace_size", TORCH_BOX(&workspace_size_op));
}

}  // namespace molspec::cpu
