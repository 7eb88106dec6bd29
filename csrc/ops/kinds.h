// The choices that a packed model's table spells as numbers, and limits that kernels rely on.

#pragma once

namespace molspec {

constexpr int kMostHeads = 64;

enum class Activation { kNone, kRelu, kGelu, kSilu, kGeluTanh };
enum class WeightType { kFloat32, kBfloat16, kFloat16, kInt8 };

}  // namespace molspec
