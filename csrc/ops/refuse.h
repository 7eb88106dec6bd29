// Errors for invalid arguments, without torch's headers, for code that a CUDA compiler reads.

#pragma once

#include <stdexcept>

#include "common/require.h"

namespace torch::stable {
class Tensor;
}

namespace molspec {

using torch::stable::Tensor;

template <typename... Parts>
void check(bool holds, const Parts&... parts) {
  if (!holds) throw std::runtime_error(joined(parts...));
}

}  // namespace molspec
