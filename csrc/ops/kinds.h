// The numbers of choices in a packed model's table, and limits of the kernels.

#pragma once

namespace molspec {

constexpr int kMostHeads = 64;

enum class Activation { kNone, kRelu, kGelu, kSilu, kGeluTanh };
enum class NormKind { kLayer, kRms, kStd };
// Rows added to embeddings, or a table of biases by distance, of a stack or of each layer.
enum class Positions { kAdded, kRelative, kRelativeByLayer, kNone };
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
