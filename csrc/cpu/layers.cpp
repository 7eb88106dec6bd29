#include "cpu/layers.h"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace molspec::cpu {
namespace {

// A buffer for each thread, as large as the largest request so far.
template <typename Item>
Item* scratch(int64_t count) {
  thread_local std::vector<Item> items;
  if (count > static_cast<int64_t>(items.size())) items.resize(count);
  return items.data();
}

// Calls visit(array, columns) for every array with a part for each row.
template <typename Visit>
void each_row_array(Workspace& work, const Model& model, const Visit& visit) {
  visit(work.hidden, model.d_stride());
  visit(work.normal, model.d_stride());
  visit(work.projected,
        std::max({model.query_key_value_stride(), model.d_stride(), model.logits_stride()}));
  visit(work.context, model.attention_stride());
  visit(work.inner, model.feed_forward_stride());
  // Rounded inputs are bytes, bfloat16, or floats, as the processor's instructions need.
  visit(work.rounded,
        4 * std::max({model.d_stride(), model.attention_stride(), model.feed_forward_stride()}));
  visit(work.row_scales, 1);
  visit(work.self_keys, 1);
  visit(work.memory_keys, 1);
  visit(work.slots, 1);
  visit(work.lanes, work.positions);
  visit(work.blocks, work.positions);
}

}  // namespace

Workspace Workspace::carve(const Model& model, int64_t rows, int64_t positions, uint8_t* base,
                           int64_t* size) {
  int64_t used = 0;
  const auto take = [&](auto*& pointer, int64_t count) {
    using Item = std::remove_reference_t<decltype(*pointer)>;
    pointer = base ? reinterpret_cast<Item*>(base + used) : nullptr;
    used += round_up(count * static_cast<int64_t>(sizeof(Item)), 64);
  };
  const int64_t blocks = round_up(positions, kBlockPositions) / kBlockPositions;
  Workspace work{};
  work.positions = positions;
  each_row_array(work, model, [&](auto*& array, int64_t columns) { take(array, rows * columns); });
  take(work.encoder_cache, 2 * blocks * model.block_size());
  *size = used;
  return work;
}

Workspace Workspace::from_row(const Model& model, int64_t row) const {
  Workspace part = *this;
  each_row_array(part, model, [&](auto*& array, int64_t columns) { array += row * columns; });
  return part;
}

void Layers::embed(const Stack& stack, int64_t row, int32_t token_id, int32_t position) const {
  const int64_t stride = model_.d_stride();
  const float* token = stack.embedding + token_id * stride;
  float* out = work_.hidden + row * stride;
  if (!stack.positions) {
    std::copy_n(token, stride, out);
    return;
  }
  const float* place = stack.positions + position * stride;
  for (int64_t i = 0; i < stride; ++i) out[i] = token[i] + place[i];
}

void Layers::embedding_norm(const Stack& stack, int rows) const {
  if (model_.embedding_norm) norm(stack.embedding_norm, rows, work_.hidden, work_.hidden);
}

void Layers::linear(const Linear& weights, int rows, const float* in, int64_t in_stride, float* out,
                    int64_t out_stride, const float* residual, Activation activation,
                    const float* factor) const {
  LinearProblem problem{};
  problem.rows = rows;
  problem.in_size = static_cast<int>(weights.in_size);
  problem.panels = static_cast<int>(weights.panels);
  problem.in = in;
  problem.in_stride = in_stride;
  problem.weights = weights.weights;
  problem.bias = weights.bias;
  problem.scales = weights.scales;
  problem.offsets = weights.offsets;
  problem.by_rows = weights.by_rows;
  if (weights.by_rows) problem.list = scratch<uint32_t>(weights.in_size + kListRoom);
  problem.factor = factor;
  problem.residual = residual;
  problem.activation = activation;
  problem.out = out;
  problem.out_stride = out_stride;
  problem.rounded = work_.rounded;
  problem.row_scales = work_.row_scales;
  switch (model_.weight_type) {
    case WeightType::kBfloat16:
      return kernels_.linear_bfloat16(problem);
    case WeightType::kInt8:
      return kernels_.linear_int8(problem);
    default:
      return kernels_.linear_float32(problem);
  }
}

void Layers::norm(const LayerNorm& norm, int rows, const float* in, float* out) const {
  kernels_.layer_norm(
      {rows, model_.norm_form(), model_.d_stride(), in, norm.weight, norm.bias, out});
}

// Pre-norm: x + f(norm(x)). Post-norm: norm(x + f(x)).
const float* Layers::sublayer_input(const LayerNorm& layer_norm, int rows) const {
  if (!model_.pre_norm) return work_.hidden;
  norm(layer_norm, rows, work_.hidden, work_.normal);
  return work_.normal;
}

void Layers::sublayer_end(const LayerNorm& layer_norm, int rows) const {
  if (!model_.pre_norm) norm(layer_norm, rows, work_.hidden, work_.hidden);
}

void Layers::project(const Attention& attention, int rows) const {
  linear(attention.query_key_value, rows, sublayer_input(attention.norm, rows), model_.d_stride(),
         work_.projected, attention.query_key_value.panels * kPanelColumns);
}

void Layers::rotate(int rows) const {
  if (model_.rotary == nullptr) return;
  kernels_.rotate({rows, static_cast<int>(2 * model_.head_count),
                   static_cast<int>(model_.head_stride()), static_cast<int>(model_.rotary_columns),
                   model_.rotary, work_.self_keys, work_.projected,
                   model_.query_key_value_stride()});
}

void Layers::project_memory(const Attention& attention, int rows) const {
  linear(attention.key_value, rows, work_.hidden, model_.d_stride(), work_.projected,
         model_.query_key_value_stride());
}

void Layers::store(const LayerCache& cache, int rows, int64_t column, const int32_t* slots) const {
  const int64_t width = model_.attention_width();
  const int64_t stride = model_.query_key_value_stride();
  const float* keys = work_.projected + column;
  kernels_.store_keys({rows, width, keys, stride, slots, cache.base, cache.block_stride});
  for (int row = 0; row < rows; ++row) {
    float* block = cache.base + slots[row] / kBlockPositions * cache.block_stride;
    std::copy_n(keys + width + row * stride, width,
                block + (kBlockPositions + slots[row] % kBlockPositions) * width);
  }
}

void Layers::attend(const Attention& attention, int rows, const LayerCache& cache,
                    const RowKeys* keys, const float* bias) const {
  AttentionProblem problem{};
  problem.rows = rows;
  problem.head_count = static_cast<int>(model_.head_count);
  problem.head_stride = static_cast<int>(model_.head_stride());
  problem.scale = static_cast<float>(model_.attention_scale);
  problem.query = work_.projected;
  problem.query_stride = attention.query_key_value.panels * kPanelColumns;
  problem.cache = cache.base;
  problem.block_stride = cache.block_stride;
  problem.keys = keys;
  problem.bias = bias;
  problem.bias_stride = model_.relative_stride();
  problem.out = work_.context;
  problem.out_stride = model_.attention_stride();
  problem.scratch = scratch<float>(attention_scratch(problem));
  problem.values = scratch<const float*>(work_.positions);
  kernels_.attention(problem);
  linear(attention.output, rows, work_.context, model_.attention_stride(), work_.hidden,
         model_.d_stride(), work_.hidden);
  sublayer_end(attention.norm, rows);
}

void Layers::feed_forward(const Layer& layer, int rows) const {
  const float* in = sublayer_input(layer.feed_forward_norm, rows);
  const int64_t stride = model_.feed_forward_stride();
  const Activation inner = model_.gated ? Activation::kNone : model_.activation;
  linear(layer.inner, rows, in, model_.d_stride(), work_.inner, stride, nullptr, inner);
  if (model_.gated)
    linear(layer.gate, rows, in, model_.d_stride(), work_.inner, stride, nullptr, model_.activation,
           work_.inner);
  linear(layer.outer, rows, work_.inner, stride, work_.hidden, model_.d_stride(), work_.hidden);
  sublayer_end(layer.feed_forward_norm, rows);
}

void Layers::log_probs(int rows, float* out) const {
  linear(model_.output, rows, work_.hidden, model_.d_stride(), work_.projected,
         model_.logits_stride());
  kernels_.log_softmax({rows, static_cast<int>(model_.target_vocab_size), work_.projected,
                        model_.logits_stride(), out});
}

}  // namespace molspec::cpu
