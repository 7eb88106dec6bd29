// Refusing bad arguments. Free of torch, for code that a CUDA compiler reads.

#pragma once

#include <sstream>
#include <stdexcept>

namespace torch {
namespace stable {
class Tensor;
}
}  // namespace torch

namespace molspec {

using torch::stable::Tensor;

template <typename... Parts>
void check(bool holds, const Parts&... parts) {
  if (holds) return;
  std::ostringstream text;
  (text << ... << parts);
  throw std::runtime_error(text.str());
}

}  // namespace molspec
