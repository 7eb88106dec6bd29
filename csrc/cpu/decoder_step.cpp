// decoder_step on the CPU: nodes go through the layers in chunks whose activations stay in the
// processor's cache. A chunk's keys and values are stored before it attends, and parents precede
// children, so every node finds its whole path in the key-value cache.

#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <cstring>

#include "cpu/layers.h"
#include "ops/check.h"
#include "ops/steps.h"

namespace molspec::cpu {
namespace {

// The blocks of a path, in the order of first use, and every slot's lane in them; no lanes if the
// path fills the blocks in order. Attention has room for as many positions as the blocks have.
RowKeys path_keys(const int32_t* slots, int length, int32_t* blocks, int32_t* lanes) {
  int count = 0, last = 0;
  bool in_order = true;
  for (int t = 0; t < length; ++t) {
    const int32_t block = slots[t] / kBlockPositions;
    if (count == 0 || blocks[last] != block) {
      last = static_cast<int>(std::find(blocks, blocks + count, block) - blocks);
      if (last == count) blocks[count++] = block;
    }
    lanes[t] = last * kBlockPositions + slots[t] % kBlockPositions;
    in_order = in_order && lanes[t] == t;
  }
  check(length <= count * kBlockPositions, "path_slots has a path of ", length, " slots in ", count,
        " blocks of ", kBlockPositions, ": expected no slot twice");
  return {blocks, count, in_order ? nullptr : lanes, length, length - 1};
}

// A chunk of nodes that goes through the layers.
class DecoderRows {
 public:
  DecoderRows(const DecoderStepProblem& problem, const Workspace& work, int64_t first_node,
              int first, int rows)
      : problem_(problem),
        model_(*problem.model),
        work_(work.from_row(model_, first)),
        layers_(model_, work_),
        nodes_(problem.nodes + first_node + first),
        log_probs_(problem.log_probs + (first_node + first) * model_.target_vocab_size),
        rows_(rows) {}
  DecoderRows(const DecoderRows&) = delete;  // layers_ refers to work_

  void embed() const {
    for (int row = 0; row < rows_; ++row) {
      const Node& node = nodes_[row];
      work_.slots[row] = problem_.path_slots[node.path_begin + node.position];
      work_.self_keys[row] =
          path_keys(problem_.path_slots + node.path_begin, node.position + 1,
                    work_.blocks + row * work_.positions, work_.lanes + row * work_.positions);
      work_.memory_keys[row] = {problem_.memories.blocks(node.memory),
                                problem_.memories.block_count(node.memory), nullptr,
                                problem_.memories.length(node.memory), node.position};
      layers_.embed(model_.decoder, row, node.token_id, node.position);
    }
    layers_.embedding_norm(model_.decoder, rows_);
  }

  void store(size_t layer) const {
    layers_.project(model_.decoder.layers[layer].self_attention, rows_);
    layers_.rotate(rows_);
    layers_.store(of_layer(problem_.kv_cache, layer), rows_, model_.attention_width(), work_.slots);
  }

  void attend(size_t layer) const {
    const Layer& weights = model_.decoder.layers[layer];
    layers_.attend(weights.self_attention, rows_, of_layer(problem_.kv_cache, layer),
                   work_.self_keys, model_.relative_bias(weights));
    layers_.project(weights.cross_attention, rows_);
    // Only `attend` uses the memory's cache, and it does not write.
    layers_.attend(weights.cross_attention, rows_,
                   of_layer(const_cast<float*>(problem_.memory_cache), layer), work_.memory_keys,
                   nullptr);
    layers_.feed_forward(weights, rows_);
  }

  void end() const {
    if (model_.final_norm) layers_.norm(model_.decoder.norm, rows_, work_.hidden, work_.hidden);
    if (problem_.hidden_states != nullptr)
      for (int row = 0; row < rows_; ++row)
        std::copy_n(work_.hidden + row * model_.d_stride(), model_.d_model,
                    problem_.hidden_states + work_.slots[row] * model_.d_model);
    layers_.log_probs(rows_, log_probs_);
  }

 private:
  LayerCache of_layer(float* cache, size_t layer) const {
    return {cache + static_cast<int64_t>(layer) * model_.block_size(), model_.block_stride()};
  }

  const DecoderStepProblem& problem_;
  const Model& model_;
  const Workspace work_;
  const Layers layers_;
  const Node* nodes_;
  float* log_probs_;
  const int rows_;
};

void decoder_step(const DecoderStepProblem& problem) {
  const Model& model = *problem.model;
  int64_t longest = 1;
  for (int64_t i = 0; i < problem.node_count; ++i) {
    const Node& node = problem.nodes[i];
    longest = std::max<int64_t>({longest, node.position + 1, problem.memories.length(node.memory)});
  }
  int64_t size;
  const Workspace work = Workspace::carve(model, std::min(problem.node_count, kChunkRows), longest,
                                          problem.workspace, &size);
  check(size <= problem.workspace_size, "workspace has ", problem.workspace_size,
        " bytes: expected ", size);
  for (int64_t chunk = 0; chunk < problem.node_count; chunk += kChunkRows) {
    const auto rows = static_cast<int>(std::min(kChunkRows, problem.node_count - chunk));
    through_layers(model.decoder.layers.size(), rows, [&](int first, int count) {
      return DecoderRows(problem, work, chunk, first, count);
    });
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
                     const Tensor& kv_cache, const Tensor& workspace, const Tensor& log_probs,
                     const Tensor& hidden_states) {
  const DecoderStepProblem problem =
      decoder_step_check(read_model(packed_check(weights, table)), nodes, path_slots, memories,
                         memory_cache, kv_cache, workspace, log_probs, hidden_states);
  values_check(problem);
  decoder_step(problem);
}

void prepare_step_op(const Tensor& weights, const Tensor& table, const Tensor& nodes,
                     const Tensor& path_slots, const Tensor& memories, const Tensor& memory_cache,
                     const Tensor& kv_cache, const Tensor& workspace, const Tensor& log_probs,
                     const Tensor& hidden_states, const Tensor& prepared) {
  PreparedStep step{};
  step.packed = packed_check(weights, table);
  step.problem = decoder_step_check(read_model(step.packed), nodes, path_slots, memories,
                                    memory_cache, kv_cache, workspace, log_probs, hidden_states);
  step.problem.model = nullptr;
  step.row_count = log_probs.size(0);
  auto* bytes = checked_data<uint8_t>(prepared, "prepared", 1);
  check(prepared.numel() == kPreparedStepBytes, "prepared has ", prepared.numel(),
        " bytes: expected ", kPreparedStepBytes);
  std::memcpy(bytes, &step, sizeof(step));
}

}  // namespace

// A StepFunction, which Python passes to the searches.
extern "C" __attribute__((visibility("default"))) const char* molspec_step(
    const void* prepared, const void* nodes, int64_t node_count, const int32_t* path_slots,
    int64_t path_slot_count) {
  PreparedStep step;
  std::memcpy(&step, prepared, sizeof(step));
  DecoderStepProblem& problem = step.problem;
  return error_of([&] {
    check(node_count <= step.row_count, "log_probs has ", step.row_count, " rows: expected ",
          node_count);
    problem.model = &read_model(step.packed);
    problem.nodes = static_cast<const Node*>(nodes);
    problem.node_count = node_count;
    problem.path_slots = path_slots;
    problem.path_slot_count = path_slot_count;
    values_check(problem);
    decoder_step(problem);
  });
}

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("decoder_step", TORCH_BOX(&decoder_step_op));
  library.impl("prepare_step", TORCH_BOX(&prepare_step_op));
}

}  // namespace molspec::cpu
