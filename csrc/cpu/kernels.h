// The dense kernels of the engine, one table for every instruction set.
//
// All of them are row-invariant: a row's result depends on that row's inputs alone, bit for bit,
// never on the number of rows in the call. Sums have a fixed order: over the inner dimension in a
// single chain for `linear`, over positions in path order for `attention`.

#pragma once

#include <cstdint>

#include "common/limits.h"
#include "ops/kinds.h"

namespace molspec::cpu {

// Columns of a packed weight panel.
constexpr int kPanelColumns = 64;
// Entries behind those of a row in LinearProblem::list.
constexpr int kListRoom = 36;

// out[row] = activation(in[row] . weights + bias) * factor[row] + residual[row]
struct LinearProblem {
  int rows;
  int in_size;      // inner dimension
  int panels;       // the output is panels * kPanelColumns wide
  const float* in;  // [rows, in_stride]
  int64_t in_stride;
  const void* weights;  // float32 [panel, in_size, 64]; bfloat16 [panel, in_size / 2, 64, 2];
                        // int8 [panel, in_size / 4, 64, 4]
  const float* bias;    // [panels * 64]
  const float* scales;  // int8: [panels * 64], see ops/model.h
  const int32_t* offsets;
  const int8_t* by_rows;  // int8, of inputs after ReLU: see ops/model.h; or null
  uint32_t* list;         // [in_size + kListRoom], with by_rows
  const float* factor;    // [rows, out_stride], or null; may be `out`
  const float* residual;  // as factor
  Activation activation;
  float* out;  // [rows, out_stride], rounded up to whole panels
  int64_t out_stride;
  uint8_t* rounded;   // [rows, in_size] as bfloat16, as floats of its precision, or as int8, on
                      // x86 with 128 added
  float* row_scales;  // [rows], of int8
};

struct NormProblem {
  int rows;
  NormForm form;        // the rest of a row is written as zero
  int64_t stride;       // a multiple of 16
  const float* in;      // [rows, stride]
  const float* weight;  // [stride], zero beyond size
  const float* bias;
  float* out;  // [rows, stride]; may be `in`
};

// The cached positions that one row attends to, in the order of the sequence.
struct RowKeys {
  const int32_t* blocks;  // [block_count] indices into the cache
  int block_count;
  const int32_t* lanes;  // [length]: index in `blocks` * 16 + position in block; null: 0, 1, ...
  int length;
  int position;  // of the row itself
};

// Stores the keys of rows in their slots of a cache, whose blocks AttentionProblem describes.
struct KeysProblem {
  int rows;
  int64_t width;      // a multiple of 16
  const float* keys;  // [rows, stride]
  int64_t stride;
  const int32_t* slots;  // [rows]
  float* cache;
  int64_t block_stride;
};

// Turns columns i and columns / 2 + i of each head by the angle of the row's position, in place.
struct RotationProblem {
  int rows;
  int head_count;
  int head_stride;
  int columns;         // even
  const float* table;  // [position, columns]: cosines, then sines
  const RowKeys* keys;
  float* heads;  // [rows, stride]
  int64_t stride;
};

// out[row, head] = softmax(scale * query . keys + bias) . values
struct AttentionProblem {
  int rows;
  int head_count;
  int head_stride;  // columns of a head, a multiple of 16, zero-padded
  float scale;
  const float* query;  // [rows, query_stride]
  int64_t query_stride;
  const float* cache;    // [block, block_stride]: keys [head, head_stride, 16], then values
  int64_t block_stride;  //   [16, head, head_stride]
  const RowKeys* keys;   // [rows]
  // [head, bias_stride], or null: of a row at position 0; those of position p begin p floats
  // before.
  const float* bias;
  int64_t bias_stride;  // 16 columns beyond a row's length are read
  float* out;           // [rows, out_stride]
  int64_t out_stride;
  float* scratch;        // attention_scratch floats
  const float** values;  // [most positions of a row], scratch too
};

// Rows with equal keys that attention takes together.
constexpr int kAttentionRows = 6;

// Floats of scratch memory that a problem needs: a tile's weights for rows that share positions; a
// row with its own positions also needs its scores by block.
inline int64_t attention_scratch(const AttentionProblem& problem) {
  int64_t most = 0;
  for (int row = 0; row < problem.rows; ++row) {
    const int64_t heads = static_cast<int64_t>(problem.head_count);
    const int64_t blocks = problem.keys[row].block_count;
    const int64_t needed = blocks * heads * (problem.keys[row].lanes ? 2 : kAttentionRows);
    most = needed > most ? needed : most;
  }
  return most * kBlockPositions;
}

struct LogSoftmaxProblem {
  int rows;
  int size;         // columns without padding
  const float* in;  // [rows, in_stride], in_stride a multiple of 16
  int64_t in_stride;
  float* out;  // [rows, size]
};

struct Kernels {
  const char* instruction_set;
  void (*linear_float32)(const LinearProblem&);
  void (*linear_bfloat16)(const LinearProblem&);
  void (*linear_int8)(const LinearProblem&);
  void (*layer_norm)(const NormProblem&);
  void (*rotate)(const RotationProblem&);
  void (*store_keys)(const KeysProblem&);
  void (*attention)(const AttentionProblem&);
  void (*log_softmax)(const LogSoftmaxProblem&);
};

// The fastest kernels of this processor. The environment variable MOLSPEC_INSTRUCTION_SET chooses
// another table (kernels.cpp); one that the processor cannot run, or an unknown name, throws
// std::runtime_error.
const Kernels& kernels();

}  // namespace molspec::cpu
