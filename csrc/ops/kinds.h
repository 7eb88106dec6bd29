// The numbers of choices in a packed model's table, and limits of the kernels.

#pragma once

namespace molspec {

constexpr int kMostHeads = 64;

enum class Activation { kNone, kRelu, kGelu, kSilu, kGeluTanh };
enum class WeightType { kFloat32, kBfloat16, kFloat16, kInt8 };

}  // namespace molspec
