// The choices that a packed model's table spells as numbers.

#pragma once

namespace molspec {

enum class Activation { kNone, kRelu, kGelu, kSilu };
enum class WeightType { kFloat32, kBfloat16, kFloat16 };

}  // namespace molspec
