// The blocks of a transformer over rows of activations, and their workspace, shared by encoder and
// decoder.

#pragma once

#include "common/limits.h"
#include "cpu/kernels.h"
#include "cpu/workers.h"
#include "ops/model.h"

namespace molspec::cpu {

// The workspace of one call of the engine, laid out in the caller's buffer, so that nothing is
// allocated once the buffer is large enough.
struct Workspace {
  float* hidden;         // [rows, d_stride], the residual stream
  float* normal;         // [rows, d_stride], its norm (pre-norm)
  float* projected;      // [rows, widest linear except the feed-forward's]
  float* context;        // [rows, attention_stride]
  float* inner;          // [rows, feed_forward_stride]
  uint8_t* rounded;      // [rows, widest linear input], see LinearProblem
  float* row_scales;     // [rows], of int8
  float* encoder_cache;  // [2, blocks of `positions`, block_size], of even and odd layers
  RowKeys* self_keys;    // [rows]
  RowKeys* memory_keys;  // [rows]
  int32_t* slots;        // [rows], of a row's keys and values
  int32_t* lanes;        // [rows, positions]
  int32_t* blocks;       // [rows, positions]

  int64_t positions;

  // With a null base only the size is computed.
  static Workspace carve(const Model& model, int64_t rows, int64_t positions, uint8_t* base,
                         int64_t* size);
  // The workspace of the rows from `row` on; different rows do not overlap.
  Workspace from_row(const Model& model, int64_t row) const;
};

// One layer's part of a cache of keys and values.
struct LayerCache {
  float* base;           // first block of this layer
  int64_t block_stride;  // floats from one block to the next
};

class Layers {
 public:
  Layers(const Model& model, const Workspace& work) : model_(model), work_(work) {}

  // hidden[row] = embedding[token] + positions[position], if there are any
  void embed(const Stack& stack, int64_t row, int32_t token_id, int32_t position) const;
  void embedding_norm(const Stack& stack, int rows) const;

  // projected = [query | key | value] of the sublayer's input; of cross-attention only the query
  void project(const Attention& attention, int rows) const;
  // Turns the queries and keys of projected, if the model has rotary positions.
  void rotate(int rows) const;
  // projected = [key | value] of hidden
  void project_memory(const Attention& attention, int rows) const;
  // Stores the key and value columns of rows of projected, from `column` on, in the rows' slots.
  void store(const LayerCache& cache, int rows, int64_t column, const int32_t* slots) const;
  // hidden += attention over the cache of the queries in projected, with the norms of the sublayer
  void attend(const Attention& attention, int rows, const LayerCache& cache, const RowKeys* keys,
              const float* bias) const;
  void feed_forward(const Layer& layer, int rows) const;
  void norm(const LayerNorm& norm, int rows, const float* in, float* out) const;

  // log_probs[row] of hidden; [rows, target_vocab_size]
  void log_probs(int rows, float* out) const;

 private:
  void linear(const Linear& weights, int rows, const float* in, int64_t in_stride, float* out,
              int64_t out_stride, const float* residual = nullptr,
              Activation activation = Activation::kNone, const float* factor = nullptr) const;
  const float* sublayer_input(const LayerNorm& norm, int rows) const;
  void sublayer_end(const LayerNorm& norm, int rows) const;

  const Model& model_;
  const Workspace& work_;
  const Kernels& kernels_ = kernels();
};

// Takes rows through a stack's layers in blocks: rows_of(first, rows) returns a block with embed(),
// store(layer), attend(layer) and end(). All rows store before any attends.
template <typename RowsOf>
void through_layers(size_t layer_count, int rows, const RowsOf& rows_of) {
  for (size_t layer = 0; layer <= layer_count; ++layer) {
    for_row_blocks(rows, [&](int first, int count) {
      const auto block = rows_of(first, count);
      layer == 0 ? block.embed() : block.attend(layer - 1);
      layer == layer_count ? block.end() : block.store(layer);
    });
  }
}

}  // namespace molspec::cpu
