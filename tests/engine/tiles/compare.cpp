// Compares the int8 kernel that uses tiles with the one that does not: every bit must be the same.

#include "tiles.h"
#ifndef __AMX_INT8__
#define __AMX_INT8__
#endif
#include <random>
#include <vector>

#include "cpu/sparse.inl"

using namespace molspec::cpu;

static void compare(int rows, int in_size, int panels) {
  std::mt19937 random(static_cast<unsigned>(rows + in_size));
  const int columns = panels * kPanelColumns, stride = in_size + kLanes;
  std::vector<float> in(rows * stride), bias(columns), scales(columns), residual(rows * columns);
  for (auto* floats : {&in, &bias, &scales, &residual})
    for (float& value : *floats) value = static_cast<float>(random() % 2001) / 997.0f - 1.0f;
  std::vector<int8_t> weights(in_size * columns);
  for (int8_t& weight : weights) weight = static_cast<int8_t>(random() % 255 - 127);
  std::vector<int32_t> offsets(columns);
  for (int32_t& offset : offsets) offset = static_cast<int32_t>(random() % 100000);
  std::vector<float> expected(rows * columns), found(rows * columns), row_scales(rows);
  std::vector<uint8_t> rounded(rows * in_size + kLanes);

  LinearProblem problem{};
  problem.rows = rows;
  problem.in_size = in_size;
  problem.panels = panels;
  problem.in = in.data();
  problem.in_stride = stride;
  problem.weights = weights.data();
  problem.bias = bias.data();
  problem.scales = scales.data();
  problem.offsets = offsets.data();
  problem.residual = residual.data();
  problem.activation = molspec::Activation::kRelu;
  problem.out = found.data();
  problem.out_stride = columns;
  problem.rounded = rounded.data();
  problem.row_scales = row_scales.data();
  tiles::products = 0;
  linear_int8(problem);
  tiles::expect((tiles::products > 0) == (rows >= kFewestTileRows), "tiles are used for few rows");
  tiles::expect(!tiles::configured, "tiles are not released");
  problem.out = expected.data();
  linear<Int8>(problem);
  if (std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0) return;
  std::printf("%d rows of %d inner positions and %d panels differ\n", rows, in_size, panels);
  std::exit(1);
}

int main() {
  for (int in_size : {4, 20, 64, 68, 128, 316})
    for (int rows = 1; rows <= 50; ++rows) compare(rows, in_size, 1 + rows % 2);
}
