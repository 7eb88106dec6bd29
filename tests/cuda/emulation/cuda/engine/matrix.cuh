// Stands in for csrc/cuda/engine/matrix.cuh: emulates the matrix unit with its documented
// distribution of elements over lanes. Each lane computes its four sums in ascending inner
// position.

#pragma once

#include <cuda_runtime.h>

namespace molspec::cuda {

struct RowFragment {
  unsigned low, low8, high, high8;
};
struct ColumnFragment {
  unsigned low, high;
};

struct Bfloat16 {
  static uint16_t round(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
  static float widen(uint16_t value) {
    const uint32_t bits = static_cast<uint32_t>(value) << 16;
    float wide;
    std::memcpy(&wide, &bits, sizeof(wide));
    return wide;
  }

  static unsigned pair(float first, float second) {
    return round(first) | static_cast<unsigned>(round(second)) << 16;
  }

  static void unpack(uint64_t words, int q, float* to) {
    to[2 * q] = widen(static_cast<uint16_t>(words));
    to[2 * q + 1] = widen(static_cast<uint16_t>(words >> 16));
    to[2 * q + 8] = widen(static_cast<uint16_t>(words >> 32));
    to[2 * q + 9] = widen(static_cast<uint16_t>(words >> 48));
  }

  static void multiply_add(const RowFragment& a, const ColumnFragment& b, float (&sums)[4]) {
    const int lane = emulation::machine.current % emulation::kWarp, g = lane / 4, q = lane % 4;
    float rows[2][16], columns[2][16];
    const auto joined = [](unsigned low, unsigned high) {
      return low | static_cast<uint64_t>(high) << 32;
    };
    const uint64_t* shown = emulation::show(joined(a.low, a.high));
    for (int i = 0; i < 4; ++i) unpack(shown[4 * g + i], i, rows[0]);
    shown = emulation::show(joined(a.low8, a.high8));
    for (int i = 0; i < 4; ++i) unpack(shown[4 * g + i], i, rows[1]);
    shown = emulation::show(joined(b.low, b.high));
    for (int i = 0; i < 8; ++i) unpack(shown[4 * (2 * q + i / 4) + i % 4], i % 4, columns[i / 4]);
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < 16; ++k) sums[i] += rows[i / 2][k] * columns[i % 2][k];
  }
};

}  // namespace molspec::cuda
