// Rows of activations on the device: what each stands for, and the memory they live in.

#pragma once

#include "ops/model.h"
#include "ops/steps.h"

namespace molspec::cuda {

// A node of the decoder or a position of a source. `node.memory` is kAbsent where a row stands for
// nothing: a gap, or a value out of range. Such rows are computed with, and reach nobody.
struct alignas(16) Row {
  Node node;
  int32_t slot;  // where its keys and values go
};

// The head of every workspace.
struct Status {
  Fault fault;        // the first that a kernel came upon
  int32_t row_count;  // rows from here on are absent: blocks of threads leave at once
};

struct Workspace {
  Status* status;
  Row* rows;         // [rows]
  float* hidden;     // [rows, d_stride], the residual stream
  float* next;       // [rows, d_stride], the residual stream as the running kernel writes it
  float* projected;  // [rows, widest linear but the feed-forward's]
  float* context;    // [rows, attention_stride]
  float* inner;      // [rows, feed_forward_stride]

  // With a null base only the size is computed.
  static Workspace carve(const Model& model, int64_t rows, uint8_t* base, int64_t* size);
};

// The keys and values of one layer in a cache.
struct LayerCache {
  float* base;           // first block of this layer
  int64_t block_stride;  // floats from one block to the next
};

}  // namespace molspec::cuda
