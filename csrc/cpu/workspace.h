// Memory that one call of the engine works in: handed out front to back from the caller's buffer,
// so that nothing is allocated once the buffer is large enough.

#pragma once

#include "common/limits.h"
#include "cpu/kernels.h"
#include "ops/model.h"

namespace molspec::cpu {

struct Workspace {
  float* hidden;         // [rows, d_stride], the residual stream
  float* normal;         // [rows, d_stride], its norm (pre-norm)
  float* projected;      // [rows, widest linear but the feed-forward's]
  float* context;        // [rows, attention_stride]
  float* inner;          // [rows, feed_forward_stride]
  uint8_t* rounded;      // [rows, widest linear input], see LinearProblem
  float* row_scales;     // [rows], of int8
  float* encoder_cache;  // [2, blocks of `positions`, block_size], of even and odd layers
  RowKeys* self_keys;    // [rows]
  RowKeys* memory_keys;  // [rows]
  int32_t* slots;        // [rows], where a row's keys and values go
  int32_t* lanes;        // [rows, positions]
  int32_t* blocks;       // [rows, positions]

  int64_t positions;

  // With a null base only the size is computed.
  static Workspace carve(const Model& model, int64_t rows, int64_t positions, uint8_t* base,
                         int64_t* size);
  // The part of the rows from `row` on, which no other part overlaps.
  Workspace from_row(const Model& model, int64_t row) const;
};

// `read_model`, for the kernels of this folder: they have no float16.
const Model& read_cpu_model(const PackedModel& packed);

}  // namespace molspec::cpu
