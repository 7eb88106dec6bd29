// The kinds of a packed model's parts, and limits of the kernels. A kind's number stands in the
// table; `engine/packing.py` finds it by the kind's name.

#pragma once

namespace molspec {

constexpr int kMostHeads = 64;

enum class Activation { kNone, kRelu, kGelu, kSilu, kGeluTanh };
constexpr const char* kActivations[] = {"none", "relu", "gelu", "silu", "gelu_tanh"};
enum class NormKind { kLayer, kRms, kStd };
constexpr const char* kNormKinds[] = {"layer", "rms", "std"};
// Rows added to embeddings, or a table of biases by distance, of a stack or of each layer.
enum class Positions { kAdded, kRelative, kRelativeByLayer, kNone };
constexpr const char* kPositions[] = {"added", "relative", "relative_by_layer", "none"};
enum class WeightType { kFloat32, kBfloat16, kInt8 };

// out = (in - mean) / (sqrt(sum of squares / divisor + eps) + deviation_eps) * weight + bias
struct NormForm {
  int size;  // columns without padding
  bool rms;  // the mean is not subtracted
  float divisor;
  float eps;
  float deviation_eps;
};

}  // namespace molspec
