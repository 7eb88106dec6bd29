// Runs every kernel of a table on fixed inputs of odd sizes, and prints a hash of each one's bits.
//
// Inputs are small integers times powers of two, the same everywhere. A NaN's sign and payload are
// the processor's own and do not count.

#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/kernels.h"

namespace molspec::cpu {
extern const Kernels MOLSPEC_KERNELS;
}

using namespace molspec::cpu;
using Floats = std::vector<float>;

namespace {

constexpr int kLanes = 16;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int rounded_up(int size, int step) { return (size + step - 1) / step * step; }

class Random {
 public:
  explicit Random(int seed) : state_(static_cast<uint64_t>(seed)) {}
  int below(int count) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<uint64_t>(count));
  }
  // Numbers in [-4, 4), 12 bits each.
  Floats floats(int64_t count) {
    Floats values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(below(4096) - 2048) / 512.0f;
    return values;
  }

 private:
  uint64_t state_;
};

// FNV-1a.
class Hash {
 public:
  void add(const Floats& values) {
    for (float value : values) {
      uint32_t bits = 0x7fc00000;
      if (value == value) std::memcpy(&bits, &value, sizeof(bits));
      for (int i = 0; i < 4; ++i) {
        hash_ ^= bits >> (8 * i) & 255;
        hash_ *= 1099511628211u;
      }
    }
  }
  void print(const char* name) const { std::printf("%s %016" PRIx64 "\n", name, hash_); }

 private:
  uint64_t hash_ = 14695981039346656037u;
};

// Weights, as whole bytes: those of a type that is not float32 are random bits of plain numbers.
std::vector<uint8_t> weights_of(molspec::WeightType type, Random& random, int count) {
  std::vector<uint8_t> bytes;
  const Floats floats = random.floats(count);
  for (float value : floats) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if (type == molspec::WeightType::kInt8) {
      bytes.push_back(static_cast<uint8_t>(random.below(255) - 127));
      continue;
    }
    for (int i = type == molspec::WeightType::kBfloat16 ? 2 : 0; i < 4; ++i)
      bytes.push_back(static_cast<uint8_t>(bits >> (8 * i)));
  }
  return bytes;
}

struct LinearCase {
  int rows, in_size, panels;
  molspec::Activation activation;
  int silent = 0;  // of eight inputs; then none is negative
};

// The bytes of an int8 matrix by rows: see ops/model.h.
std::vector<int8_t> by_rows(const std::vector<uint8_t>& weights, int in_size, int columns) {
  std::vector<int8_t> rows(static_cast<size_t>(in_size * columns));
  for (int k = 0; k < in_size; ++k) {
    for (int column = 0; column < columns; ++column) {
      const int panel = column / kPanelColumns * kPanelColumns, c = column % kPanelColumns;
      const int place = c % 16 / 4 * 16 + c / 16 * 4 + c % 4;
      rows[static_cast<size_t>(k * columns + panel + place)] = static_cast<int8_t>(
          weights[static_cast<size_t>(panel * in_size + k / 4 * 256 + c * 4 + k % 4)]);
    }
  }
  return rows;
}

// Returns whether the kernel has read the matrix by rows.
bool add_linear(Hash& hash, void (*kernel)(const LinearProblem&), molspec::WeightType type,
                const LinearCase& each) {
  Random random(each.rows * 1000 + each.in_size);
  const int columns = each.panels * kPanelColumns, stride = rounded_up(each.in_size, kLanes);
  Floats in = random.floats(each.rows * stride + kLanes);
  if (each.silent)
    for (float& value : in) value = random.below(8) < each.silent ? 0.0f : std::fabs(value);
  if (each.rows > 2) in[stride] = kNan, in[2 * stride] = kInfinity;
  if (each.rows > 3 && each.silent)
    in[3 * stride] = in[3 * stride + 1] = 3e38f;  // their sum is none
  const auto weights = weights_of(type, random, (each.in_size + 1) * columns);
  Floats bias = random.floats(columns);
  if (type == molspec::WeightType::kInt8 && each.rows > 4) {
    // A row whose steps are infinite or nearly so, which a bias does not hide.
    for (int i = 0; i < stride; ++i) in[4 * stride + i] *= 1e-37f;
    bias[0] = 0.0f;
  }
  const Floats factor = random.floats(each.rows * columns),
               residual = random.floats(each.rows * columns);
  Floats scales = random.floats(columns), row_scales(static_cast<size_t>(each.rows)),
         out(factor.size());
  std::vector<int32_t> offsets(static_cast<size_t>(columns));  // as ops/model.h says
  if (type == molspec::WeightType::kInt8) {
    const int64_t panel = static_cast<int64_t>(each.in_size) * kPanelColumns;
    for (int64_t i = 0; i < panel * each.panels; ++i)
      offsets[i / panel * kPanelColumns + i / 4 % kPanelColumns] +=
          128 * static_cast<int8_t>(weights[static_cast<size_t>(i)]);
  }
  std::vector<uint8_t> rounded(static_cast<size_t>(each.rows * each.in_size * 4 + 64));
  const bool plain = each.rows % 2;

  LinearProblem problem{};
  problem.rows = each.rows;
  problem.in_size = each.in_size;
  problem.panels = each.panels;
  problem.in = in.data();
  problem.in_stride = stride;
  problem.weights = weights.data();
  problem.bias = bias.data();
  problem.scales = scales.data();
  problem.offsets = offsets.data();
  problem.factor = plain ? nullptr : factor.data();
  problem.residual = plain ? nullptr : residual.data();
  problem.activation = each.activation;
  problem.out = out.data();
  problem.out_stride = columns;
  problem.rounded = rounded.data();
  problem.row_scales = row_scales.data();
  std::vector<int8_t> rows;
  if (each.silent) rows = by_rows(weights, each.in_size, columns);
  std::vector<uint32_t> list(static_cast<size_t>(each.in_size + kListRoom));
  problem.by_rows = each.silent ? rows.data() : nullptr;
  problem.list = list.data();
  kernel(problem);
  hash.add(out);
  for (int8_t& weight : rows) weight = 0;
  const Floats before = out;
  if (each.silent) kernel(problem);
  return std::memcmp(before.data(), out.data(), out.size() * sizeof(float)) != 0;
}

void print_linear(const char* name, void (*kernel)(const LinearProblem&), molspec::WeightType type,
                  const std::array<int, 4>& in_sizes) {
  using molspec::Activation;
  Hash hash;
  for (auto activation : {Activation::kNone, Activation::kRelu, Activation::kGelu,
                          Activation::kSilu, Activation::kGeluTanh})
    for (int in_size : in_sizes)
      for (int rows = 1; rows <= 14; ++rows)
        add_linear(hash, kernel, type, {rows, in_size, 1 + rows % 3, activation});
  hash.print(name);
}

// Int8 matrices after ReLU: with few inputs above zero, and with too many to list them.
void print_after_relu(const Kernels& kernels) {
  for (int silent : {7, 1}) {
    Hash hash;
    bool reads_rows = false;
    for (int in_size : {4, 256, 300, 1040})
      for (int rows = 1; rows <= 40; rows += 3)
        reads_rows |= add_linear(hash, kernels.linear_int8, molspec::WeightType::kInt8,
                                 {rows, in_size, 1 + rows % 6, molspec::Activation::kNone, silent});
    hash.print(silent == 7 ? "silent" : "loud");
    std::printf("%s_by_rows %d\n", silent == 7 ? "silent" : "loud", reads_rows);
  }
}

void print_norms(const Kernels& kernels) {
  Hash hash;
  for (int size : {1, 15, 16, 37, 100, 257}) {
    for (int kind = 0; kind < (size == 1 ? 2 : 3); ++kind) {
      const auto divisor = static_cast<float>(kind == 2 ? size - 1 : size);
      const molspec::NormForm form{size, kind == 1, divisor, kind == 2 ? 0.0f : 1e-5f,
                                   kind == 2 ? 1e-5f : 0.0f};
      Random random(size);
      const int rows = 3, stride = rounded_up(size, kLanes);
      Floats in = random.floats(rows * stride), weight = random.floats(stride),
             bias = random.floats(stride), out(in.size());
      for (int row = 0; row < rows; ++row)
        for (int i = size; i < stride; ++i) in[row * stride + i] = 0.0f;
      for (int i = size; i < stride; ++i) weight[i] = bias[i] = 0.0f;
      kernels.layer_norm({rows, form, stride, in.data(), weight.data(), bias.data(), out.data()});
      hash.add(out);
    }
  }
  hash.print("layer_norm");
}

void print_rotation(const Kernels& kernels) {
  Hash hash;
  for (int columns : {2, 6, 16, 30, 32, 64}) {
    Random random(columns);
    const int rows = 3, head_count = 4, head_stride = rounded_up(columns + 5, kLanes);
    const int stride = head_count * head_stride + 7;
    Floats heads = random.floats(rows * stride), table = random.floats(40 * columns);
    std::vector<RowKeys> keys;
    for (int row = 0; row < rows; ++row) keys.push_back({nullptr, 0, nullptr, 0, 19 * row});
    kernels.rotate(
        {rows, head_count, head_stride, columns, table.data(), keys.data(), heads.data(), stride});
    hash.add(heads);
  }
  hash.print("rotate");
}

// Runs of slots in order, of any length, between others.
void print_keys(const Kernels& kernels) {
  Hash hash;
  for (int first = 0; first < kLanes; ++first) {
    Random random(first);
    const int rows = 60, width = 48, stride = width + 5, block_stride = 3 * width * kLanes;
    const Floats keys = random.floats(rows * stride);
    Floats cache = random.floats(8 * block_stride);
    std::vector<int32_t> slots;
    for (int row = 0; row < rows; ++row) slots.push_back(first + row + (row * first / 97) * 3);
    kernels.store_keys(
        {rows, width, keys.data(), stride, slots.data(), cache.data(), block_stride});
    hash.add(cache);
  }
  hash.print("store_keys");
}

struct AttentionCase {
  int head_count, head_stride, rows, length;
  bool with_lanes, with_bias;
};

void add_attention(Hash& hash, const Kernels& kernels, const AttentionCase& each) {
  Random random(each.length * 100 + each.rows);
  const int width = each.head_count * each.head_stride, block_stride = 2 * width * kLanes;
  const int block_count = rounded_up(each.length, kLanes) / kLanes, cached = block_count + 2;
  const int bias_stride = each.length + kLanes;
  const Floats cache = random.floats(cached * block_stride),
               query = random.floats(each.rows * width),
               bias = random.floats(each.rows * each.head_count * bias_stride);
  std::vector<int32_t> blocks, lanes;
  for (int block = 0; block < block_count; ++block) blocks.push_back((block * 2 + 1) % cached);
  for (int t = 0; t < each.length; ++t) lanes.push_back(each.length - 1 - t);
  std::vector<RowKeys> keys;
  for (int row = 0; row < each.rows; ++row)
    keys.push_back({blocks.data(), block_count, each.with_lanes ? lanes.data() : nullptr,
                    each.length, -row * each.head_count * bias_stride});
  Floats out(query.size());

  AttentionProblem problem{each.rows,
                           each.head_count,
                           each.head_stride,
                           0.25f,
                           query.data(),
                           width,
                           cache.data(),
                           block_stride,
                           keys.data(),
                           each.with_bias ? bias.data() : nullptr,
                           bias_stride,
                           out.data(),
                           width,
                           nullptr,
                           nullptr};
  Floats scratch(static_cast<size_t>(attention_scratch(problem)));
  std::vector<const float*> values(static_cast<size_t>(each.length));
  problem.scratch = scratch.data();
  problem.values = values.data();
  kernels.attention(problem);
  hash.add(out);
}

void print_attention(const Kernels& kernels) {
  Hash hash;
  for (int head_count : {1, 3, 8})
    for (int head_stride : {16, 32, 48, 64})
      for (int length : {1, 7, 16, 37, 131})
        for (int rows : {1, 2, 5, 13})
          for (int kind = 0; kind < 4; ++kind)
            add_attention(hash, kernels,
                          {head_count, head_stride, rows, length, kind % 2 == 1, kind / 2 == 1});
  hash.print("attention");
}

void print_log_softmax(const Kernels& kernels) {
  Hash hash;
  for (int size : {1, 15, 16, 33, 81, 234, 523}) {
    Random random(size);
    const int rows = 4, stride = rounded_up(size, kLanes);
    Floats in = random.floats(rows * stride), out(static_cast<size_t>(rows * size));
    for (int i = 0; i < size; ++i) in[stride + i] *= 64.0f;
    in[2 * stride] = -kInfinity;
    in[3 * stride + size / 2] = kNan;
    kernels.log_softmax({rows, size, in.data(), stride, out.data()});
    hash.add(out);
  }
  hash.print("log_softmax");
}

}  // namespace

int main() {
  using molspec::WeightType;
  const Kernels& kernels = MOLSPEC_KERNELS;
  print_linear("linear_float32", kernels.linear_float32, WeightType::kFloat32, {1, 7, 37, 130});
  print_linear("linear_bfloat16", kernels.linear_bfloat16, WeightType::kBfloat16, {2, 6, 38, 130});
  print_linear("linear_int8", kernels.linear_int8, WeightType::kInt8, {4, 20, 68, 316});
  print_after_relu(kernels);
  print_norms(kernels);
  print_rotation(kernels);
  print_keys(kernels);
  print_attention(kernels);
  print_log_softmax(kernels);
}
