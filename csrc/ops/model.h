// A packed model: one buffer of weights and a table of sizes, flags and offsets into it. Written
// by molspec.engine.packing, read by model.cpp in the same order.

#pragma once

#include <cstdint>
#include <vector>

#include "common/limits.h"
#include "ops/kinds.h"
#include "ops/refuse.h"

namespace molspec {

constexpr int64_t kPackingVersion = 3;
// The maximum of a model's sizes, and of rows and positions: no product of them overflows.
constexpr int64_t kMostSize = 1 << 20;
// A sum of so many products of bytes from -127 to 127 fits in 32 bits.
constexpr int64_t kMostInt8Inner = 133143;

inline int64_t round_up(int64_t size, int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

// A weight matrix as panels of 64 output columns, and its bias.
struct Linear {
  const void* weights;
  const float* bias;
  int64_t in_size;  // a multiple of 2, for int8 weights of 4
  int64_t panels;
  // For int8: the scale of a column's weights, and 128 times their sum.
  const float* scales;
  const int32_t* offsets;
  // For int8 and inputs after ReLU, the bytes once more: [in_size, panels, 64], where column
  // 16 j + 4 l + e of a panel is at 16 l + 4 j + e, so that interleaving four rows puts them in
  // order. Else null.
  const int8_t* by_rows;
};

// An RMS norm has zeros as `bias`.
struct LayerNorm {
  const float* weight;
  const float* bias;
};

struct Attention {
  Linear query_key_value;  // self: [query | key | value]; cross: only the query
  Linear key_value;        // cross only: [key | value] of the memory
  Linear output;
  LayerNorm norm;
};

struct Layer {
  Attention self_attention;
  Attention cross_attention;  // decoder only
  Linear gate, inner, outer;  // feed-forward; gate: of gated models only
  LayerNorm feed_forward_norm;
  // [head, relative_stride], or null: self-attention adds column max_positions - 1 + d to the score
  // of a key d positions after the query.
  const float* relative_bias;
};

struct Stack {
  const float* embedding;  // [vocab, d_stride]
  const float* positions;  // [max_positions, d_stride], or null
  LayerNorm embedding_norm;
  LayerNorm norm;
  std::vector<Layer> layers;
};

struct Model {
  WeightType weight_type;  // of the matrices; everything else is float32
  int64_t d_model, head_count, head_dim, feed_forward;
  int64_t source_vocab_size, target_vocab_size, max_positions;
  bool pre_norm, final_norm, embedding_norm, gated;
  NormKind norm_kind;
  Activation activation;
  double norm_eps, attention_scale;
  Positions positions;
  // Self-attention turns columns i and rotary_columns / 2 + i of each head of its queries and keys.
  int64_t rotary_columns;  // even; 0: none
  const float* rotary;     // [max_positions, rotary_columns]: cosines, then sines
  Stack encoder, decoder;
  Linear output;

  NormForm norm_form() const {
    const bool std = norm_kind == NormKind::kStd;
    const auto eps = static_cast<float>(norm_eps);
    return {static_cast<int>(d_model), norm_kind == NormKind::kRms,
            static_cast<float>(std ? d_model - 1 : d_model), std ? 0.0f : eps, std ? eps : 0.0f};
  }

  // Strides of activation rows: whole panels, so that a kernel never writes half of one.
  int64_t d_stride() const { return round_up(d_model, 64); }
  int64_t head_stride() const { return round_up(head_dim, 16); }
  int64_t attention_width() const { return head_count * head_stride(); }
  int64_t attention_stride() const { return round_up(attention_width(), 64); }
  int64_t query_key_value_stride() const { return round_up(3 * attention_width(), 64); }
  int64_t feed_forward_stride() const { return round_up(feed_forward, 64); }
  int64_t relative_stride() const { return round_up(2 * max_positions + 16, 16); }
  int64_t logits_stride() const { return round_up(target_vocab_size, 64); }
  // Floats of one cache block of one layer: keys [head, head_stride, position] and values
  // [position, width] of its positions.
  int64_t block_size() const { return 2 * kBlockPositions * attention_width(); }
  // Floats from one block of a cache to the next: a block of every decoder layer.
  int64_t block_stride() const {
    return static_cast<int64_t>(decoder.layers.size()) * block_size();
  }

  // The biases of a query at position 0 for the positions 0, 1, ...; [head, relative_stride]. Those
  // of a query at position p begin p floats before.
  const float* relative_bias(const Layer& layer) const {
    return layer.relative_bias ? layer.relative_bias + max_positions - 1 : nullptr;
  }
};

// A weights buffer and its table, with checked types and alignment.
struct PackedModel {
  const uint8_t* weights;
  int64_t weights_size;
  const int64_t* table;
  int64_t table_size;
};
PackedModel packed_check(const Tensor& weights, const Tensor& table);

// Reads the model from them. Every offset is checked against the buffer, so a damaged table cannot
// make a kernel read outside it. The result belongs to the calling thread and is valid until its
// next call, which reuses its memory and does not read the same buffer and table again.
const Model& read_model(const PackedModel& packed);

}  // namespace molspec
