// The instructions of AMX that the int8 kernels use, as plain code, for processors without them.
// What a processor would refuse ends the program.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tiles {

struct Tile {
  int rows, bytes;
  uint8_t data[16][64];
};
inline Tile all[8];
inline bool configured = false;
inline int products = 0;

inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s\n", what);
  std::exit(1);
}

inline Tile& use(int tile) {
  expect(configured && all[tile].rows > 0, "a tile without a size is used");
  return all[tile];
}

}  // namespace tiles

inline void _tile_loadconfig(const void* from) {
  const auto* sizes = static_cast<const uint8_t*>(from);
  tiles::expect(sizes[0] == 1, "the palette is not 1");
  for (int tile = 0; tile < 8; ++tile) {
    uint16_t bytes;
    std::memcpy(&bytes, sizes + 16 + 2 * tile, sizeof(bytes));
    tiles::expect(sizes[48 + tile] <= 16 && bytes <= 64, "a tile is too large");
    tiles::all[tile] = {sizes[48 + tile], bytes, {}};
  }
  tiles::configured = true;
}

inline void _tile_release() { tiles::configured = false; }

inline void _tile_zero(int tile) { std::memset(tiles::use(tile).data, 0, 16 * 64); }

inline void _tile_loadd(int tile, const void* from, int64_t stride) {
  tiles::Tile& to = tiles::use(tile);
  for (int row = 0; row < to.rows; ++row)
    std::memcpy(to.data[row], static_cast<const uint8_t*>(from) + row * stride, to.bytes);
}

inline void _tile_stored(int tile, void* to, int64_t stride) {
  const tiles::Tile& from = tiles::use(tile);
  for (int row = 0; row < from.rows; ++row)
    std::memcpy(static_cast<uint8_t*>(to) + row * stride, from.data[row], from.bytes);
}

// sums[row][n] += in[row][4 k + i] * weights[k][4 n + i], of unsigned and signed bytes
inline void _tile_dpbusd(int sums, int in, int weights) {
  tiles::Tile& c = tiles::use(sums);
  const tiles::Tile &a = tiles::use(in), &b = tiles::use(weights);
  tiles::expect(a.rows == c.rows && b.bytes == c.bytes && a.bytes == 4 * b.rows,
                "the sizes of three tiles do not fit");
  ++tiles::products;
  for (int row = 0; row < c.rows; ++row) {
    for (int n = 0; n < c.bytes / 4; ++n) {
      uint32_t sum;
      std::memcpy(&sum, c.data[row] + 4 * n, sizeof(sum));
      for (int k = 0; k < a.bytes; ++k)
        sum += static_cast<uint32_t>(a.data[row][k] *
                                     static_cast<int8_t>(b.data[k / 4][4 * n + k % 4]));
      std::memcpy(c.data[row] + 4 * n, &sum, sizeof(sum));
    }
  }
}
