// Rounds a matrix to bytes, column by column of its output, in the layouts of ops/model.h.

#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "cpu/kernels.h"
#include "ops/check.h"
#include "ops/model.h"

namespace molspec::cpu {
namespace {

constexpr int64_t kStep = 4;  // inner positions that lie beside each other in a panel

// Rounds numbers to 127 steps on either side of zero, and returns their scale. Magnitudes are
// compared by their bits, which order as they do, since compilers do not vectorise a maximum of
// floats.
float round_to_bytes(const float* from, int64_t size, int8_t* to) {
  int32_t most = 0;
  for (int64_t i = 0; i < size; ++i) {
    int32_t bits;
    std::memcpy(&bits, from + i, sizeof(bits));
    most = std::max(most, bits & 0x7fffffff);
  }
  float largest;
  std::memcpy(&largest, &most, sizeof(largest));
  const float scale = largest / 127.0f, step = scale != 0.0f ? scale : 1.0f;
  constexpr float kWhole = 12582912.0f;  // 1.5 * 2^23: leaves no fraction bits
  for (int64_t i = 0; i < size; ++i)
    to[i] = static_cast<int8_t>(static_cast<int32_t>((from[i] / step + kWhole) - kWhole));
  return scale;
}

// Copies a panel to its columns of Linear::by_rows, [inner, stride].
void by_rows_of_panel(const int8_t* panel, int64_t inner, int8_t* by_rows, int64_t stride) {
  for (int64_t i = 0; i < inner; i += kStep, panel += kStep * kPanelColumns) {
    for (int64_t place = 0; place < kPanelColumns; ++place) {
      const int64_t column = place / 4 % 4 * 16 + place / 16 * 4 + place % 4;
      for (int64_t e = 0; e < kStep; ++e)
        by_rows[(i + e) * stride + place] = panel[column * kStep + e];
    }
  }
}

void pack_int8_op(const Tensor& rows, int64_t first, const Tensor& panels, const Tensor& scales,
                  const Tensor& offsets, const Tensor& by_rows) {
  const auto* from = checked_data<const float>(rows, "rows", 2);
  auto* to = reinterpret_cast<int8_t*>(checked_data<uint8_t>(panels, "panels", 1));
  auto* scale_of = checked_data<float>(scales, "scales", 1);
  auto* offset_of = checked_data<int32_t>(offsets, "offsets", 1);
  auto* again = reinterpret_cast<int8_t*>(checked_data<uint8_t>(by_rows, "by_rows", 1));
  const int64_t count = rows.size(0), size = rows.size(1), columns = scales.numel();
  const int64_t inner = round_up(size, kStep);
  check(size <= kMostSize, "rows has ", size, " columns: expected at most ", kMostSize);
  check(first >= 0 && first % kPanelColumns == 0 && first <= columns - count, "first is ", first,
        ": expected the first column of a panel, of ", columns, " for ", count, " rows");
  const auto check_size = [](const Tensor& part, const char* name, int64_t expected) {
    check(part.numel() == expected, name, " has ", part.numel(), " entries: expected ", expected);
  };
  check_size(scales, "scales", round_up(columns, kPanelColumns));
  check_size(offsets, "offsets", columns);
  check_size(panels, "panels", columns * inner);
  if (by_rows.numel() != 0) check_size(by_rows, "by_rows", panels.numel());
  std::vector<int8_t> bytes(static_cast<size_t>(inner));
  for (int64_t row = 0, column = first; row < count; ++row, ++column) {
    scale_of[column] = round_to_bytes(from + row * size, size, bytes.data());
    // It wraps only where a row is longer than read_model() takes.
    const int32_t sum = std::accumulate(bytes.begin(), bytes.end(), 0);
    offset_of[column] = static_cast<int32_t>(128u * static_cast<uint32_t>(sum));
    const int64_t place = column % kPanelColumns;
    int8_t* panel = to + (column - place) * inner + place * kStep;
    for (int64_t i = 0; i < inner; i += kStep)
      std::memcpy(panel + i * kPanelColumns, bytes.data() + i, kStep);
  }
  for (int64_t column = first; by_rows.numel() > 0 && column < first + count;
       column += kPanelColumns)
    by_rows_of_panel(to + column * inner, inner, again + column, columns);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("pack_int8", TORCH_BOX(&pack_int8_op));
}

}  // namespace molspec::cpu
