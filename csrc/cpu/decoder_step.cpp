// decoder_step on the CPU: nodes go through the layers in chunks whose activations stay in cache.
// A chunk's keys and values are stored before it attends, and parents stand before children, so a
// node finds its whole path in the cache wherever the chunks are cut.

#include "ops/decoder_step.h"

#include <torch/csrc/stable/library.h>

#include <algorithm>

#include "cpu/layers.h"

namespace molspec::cpu {
namespace {

struct Chunk {
  const Node* nodes;
  int rows;
};

int32_t end_slot(const DecoderStepProblem& problem, const Node& node) {
  return problem.path_slots[node.path_begin + node.position];
}

// The blocks a path touches, in order of first touch, and every slot's lane in them.
RowKeys path_keys(const int32_t* slots, int length, const float* bias, int32_t* blocks,
                  int32_t* lanes) {
  int count = 0, last = 0;
  for (int t = 0; t < length; ++t) {
    const int32_t block = slots[t] / kBlockPositions;
    if (count == 0 || blocks[last] != block) {
      last = static_cast<int>(std::find(blocks, blocks + count, block) - blocks);
      if (last == count) blocks[count++] = block;
    }
    lanes[t] = last * kBlockPositions + slots[t] % kBlockPositions;
  }
  return {blocks, count, lanes, length, bias};
}

void find_keys(const DecoderStepProblem& problem, const Chunk& chunk, const Workspace& work,
               int64_t longest) {
  const Model& model = *problem.model;
  for (int row = 0; row < chunk.rows; ++row) {
    const Node& node = chunk.nodes[row];
    work.self_keys[row] = path_keys(problem.path_slots + node.path_begin, node.position + 1,
                                    model.relative_bias(model.decoder, node.position),
                                    work.blocks + row * longest, work.lanes + row * longest);
    work.memory_keys[row] = {problem.memories.blocks(node.memory),
                             problem.memories.block_count(node.memory), nullptr,
                             problem.memories.length(node.memory), nullptr};
  }
}

void decoder_chunk(const DecoderStepProblem& problem, const Chunk& chunk, const Workspace& work,
                   float* log_probs) {
  const Model& model = *problem.model;
  const Layers layers(model, work);
  const int rows = chunk.rows;
  for (int row = 0; row < rows; ++row)
    layers.embed(model.decoder, row, chunk.nodes[row].token_id, chunk.nodes[row].position);
  layers.embedding_norm(model.decoder, rows);

  const int64_t block_stride =
      static_cast<int64_t>(model.decoder.layers.size()) * model.block_size();
  LayerCache self{problem.kv_cache, block_stride};
  // Only `attend` sees the memory's cache, and it does not write.
  LayerCache memory{const_cast<float*>(problem.memory_cache), block_stride};
  for (const Layer& layer : model.decoder.layers) {
    layers.project_self(layer.self_attention, rows);
    for (int row = 0; row < rows; ++row)
      layers.store(self, row, model.attention_width(), end_slot(problem, chunk.nodes[row]));
    layers.attend(layer.self_attention, rows, self, work.self_keys, model.query_key_value_stride());
    layers.project_query(layer.cross_attention, rows);
    layers.attend(layer.cross_attention, rows, memory, work.memory_keys, model.attention_stride());
    layers.feed_forward(layer, rows);
    self.base += model.block_size();
    memory.base += model.block_size();
  }
  if (model.final_norm) layers.norm(model.decoder.norm, rows, work.hidden, work.hidden);
  layers.log_probs(rows, log_probs);
}

void decoder_step(const DecoderStepProblem& problem) {
  const Model& model = *problem.model;
  int64_t longest = 1;
  for (int64_t i = 0; i < problem.node_count; ++i)
    longest = std::max<int64_t>(longest, problem.nodes[i].position + 1);
  for (int64_t i = 0; i < problem.node_count; ++i)
    longest = std::max<int64_t>(longest, problem.memories.length(problem.nodes[i].memory));
  int64_t size;
  const Workspace work = Workspace::carve(model, std::min(problem.node_count, kChunkRows), longest,
                                          problem.workspace, &size);
  check(size <= problem.workspace_size, "workspace has ", problem.workspace_size,
        " bytes: expected ", size);
  for (int64_t first = 0; first < problem.node_count; first += kChunkRows) {
    const Chunk chunk{problem.nodes + first,
                      static_cast<int>(std::min(kChunkRows, problem.node_count - first))};
    find_keys(problem, chunk, work, longest);
    decoder_chunk(problem, chunk, work, problem.log_probs + first * model.target_vocab_size);
  }
}

void values_check(const DecoderStepProblem& problem) {
  const NodeLimits limits(problem);
  for (int64_t i = 0; i < problem.node_count; ++i) {
    const Node& node = problem.nodes[i];
    refuse(node_fault(node, static_cast<int32_t>(i), problem.path_slots, limits));
    if (i == 0 || node.memory != problem.nodes[i - 1].memory)
      refuse(memory_fault(problem.memories, node.memory, problem.memory_blocks));
  }
}

void decoder_step_op(const Tensor& weights, const Tensor& table, const Tensor& nodes,
                     const Tensor& path_slots, const Tensor& memories, const Tensor& memory_cache,
                     const Tensor& kv_cache, const Tensor& workspace, const Tensor& log_probs) {
  const DecoderStepProblem problem =
      decoder_step_check(read_cpu_model(weights, table), nodes, path_slots, memories, memory_cache,
                         kv_cache, workspace, log_probs);
  values_check(problem);
  decoder_step(problem);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("decoder_step", TORCH_BOX(&decoder_step_op));
}

}  // namespace molspec::cpu
