// Rows of activations on the device, and their memory.

#pragma once

#include "ops/model.h"
#include "ops/steps.h"

namespace molspec::cuda {

// A node of the decoder or a position of a source. `node.memory` is kAbsent for a gap and for a
// value out of range. Such rows are computed too, but no other row reads them.
struct alignas(16) Row {
  Node node;
  int32_t slot;  // of its keys and values
};

// The head of every workspace.
struct Status {
  Fault fault;        // the first that a kernel found
  int32_t row_count;  // rows from here on are absent: their blocks of threads return at once
};

struct Workspace {
  Status* status;
  Row* rows;         // [rows]
  float* hidden;     // [rows, d_stride], the residual stream
  float* next;       // [rows, d_stride], the residual stream that the running kernel writes
  float* projected;  // [rows, widest linear except the feed-forward's]
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
