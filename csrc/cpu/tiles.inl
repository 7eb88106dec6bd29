// AMX multiplies tiles of up to sixteen rows. Its sums of bytes are as exact as all others.

#pragma once

#include "cpu/linear.inl"

#if defined(__AMX_INT8__)
namespace molspec::cpu {
namespace {

// Fewer rows read the weights once without tiles too, and wait for nothing else.
constexpr int kFewestTileRows = kTileRows + 1;
constexpr int kMostTileRows = 16;
constexpr int kTileBytes = 64;    // inner positions of a row of inputs
constexpr int kTileColumns = 16;  // of weights, each with four inner positions

// What the processor reads of the tiles' sizes. Tiles 0 to 3 have the sums of a panel's columns, 4
// inputs, 5 weights, 6 and 7 those of the last inner positions if they do not fill a tile.
struct alignas(64) TileSizes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};  // of a row
  uint8_t rows[16] = {};

  TileSizes(int row_count, int last_bytes) {
    for (int tile = 0; tile < 5; ++tile) set(tile, row_count, kTileBytes);
    set(5, kTileBytes / 4, kTileBytes);
    if (last_bytes == 0) return;
    set(6, row_count, last_bytes);
    set(7, last_bytes / 4, kTileBytes);
  }
  void set(int tile, int row_count, int row_bytes) {
    rows[tile] = static_cast<uint8_t>(row_count);
    bytes[tile] = static_cast<uint16_t>(row_bytes);
  }
};

constexpr int kFetched = kTileBytes * kPanelColumns / 4;

inline void fetch_ahead(const int8_t* weights) {
#pragma GCC unroll 16
  for (int byte = 0; byte < kFetched; byte += 64) __builtin_prefetch(weights + kBytesAhead + byte);
}

// sums[row, column] of one panel for the rows of a tile. The first tile of rows fetches weights
// ahead, little by little.
inline void sum_tiles(const uint8_t* in, int64_t in_size, const int8_t* weights, int32_t* sums,
                      bool fetches_ahead) {
  constexpr int kVector = kTileColumns * 4;
  constexpr int kStride = kPanelColumns * 4;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  int64_t k = 0;
  for (; k + kTileBytes <= in_size; k += kTileBytes) {
    const int8_t* from = weights + k * kPanelColumns;
    _tile_loadd(4, in + k, in_size);
    _tile_loadd(5, from, kStride);
    _tile_dpbusd(0, 4, 5);
    if (fetches_ahead) fetch_ahead(from);
    _tile_loadd(5, from + kVector, kStride);
    _tile_dpbusd(1, 4, 5);
    if (fetches_ahead) fetch_ahead(from + kFetched);
    _tile_loadd(5, from + 2 * kVector, kStride);
    _tile_dpbusd(2, 4, 5);
    if (fetches_ahead) fetch_ahead(from + 2 * kFetched);
    _tile_loadd(5, from + 3 * kVector, kStride);
    _tile_dpbusd(3, 4, 5);
    if (fetches_ahead) fetch_ahead(from + 3 * kFetched);
  }
  if (k < in_size) {
    const int8_t* from = weights + k * kPanelColumns;
    _tile_loadd(6, in + k, in_size);
    _tile_loadd(7, from, kStride);
    _tile_dpbusd(0, 6, 7);
    _tile_loadd(7, from + kVector, kStride);
    _tile_dpbusd(1, 6, 7);
    _tile_loadd(7, from + 2 * kVector, kStride);
    _tile_dpbusd(2, 6, 7);
    _tile_loadd(7, from + 3 * kVector, kStride);
    _tile_dpbusd(3, 6, 7);
  }
  _tile_stored(0, sums, kStride);
  _tile_stored(1, sums + kTileColumns, kStride);
  _tile_stored(2, sums + 2 * kTileColumns, kStride);
  _tile_stored(3, sums + 3 * kTileColumns, kStride);
}

struct StoredSums {
  static constexpr int vectors = kTileVectors;
  int rows;
  const int32_t* sums;  // [rows, kPanelColumns]
  const int32_t* offsets;
  i32x16 at(int row, int vector) const {
    return load_integers(sums + row * kPanelColumns + vector * kLanes) -
           load_integers(offsets + vector * kLanes);
  }
};

// All tiles have the same number of rows, so that the processor is told their sizes once: the last
// one may begin with rows that are finished already.
void linear_in_tiles(const LinearProblem& problem) {
  const int tiles = (problem.rows + kMostTileRows - 1) / kMostTileRows;
  const int tile_rows = (problem.rows + tiles - 1) / tiles;
  const TileSizes sizes(tile_rows, problem.in_size % kTileBytes);
  asm volatile("" : : "r"(&sizes) : "memory");  // gcc's tile intrinsics do not say what they read
  _tile_loadconfig(&sizes);
  alignas(64) int32_t sums[kMostTileRows * kPanelColumns];
  for (int panel = 0; panel < problem.panels; ++panel) {
    const int64_t column = static_cast<int64_t>(panel) * kPanelColumns;
    const int8_t* weights = static_cast<const int8_t*>(problem.weights) + column * problem.in_size;
    for (int begin = 0; begin < problem.rows; begin += tile_rows) {
      const int left = problem.rows - begin;
      const int first = left < tile_rows ? problem.rows - tile_rows : begin;
      sum_tiles(Int8::input(problem, first), problem.in_size, weights, sums, begin == 0);
      const int count = left < tile_rows ? left : tile_rows;
      const int32_t* from = sums + (begin - first) * kPanelColumns;
      for (int vector = 0; vector < kPanelVectors; vector += kTileVectors)
        finish<Int8>(
            problem, begin, column + vector * kLanes,
            StoredSums{count, from + vector * kLanes, problem.offsets + column + vector * kLanes});
    }
  }
  _tile_release();
}

}  // namespace
}  // namespace molspec::cpu
#endif
