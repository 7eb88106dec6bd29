// Errors for invalid tensors, which name the argument, its value and what was expected.

#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "ops/refuse.h"

namespace molspec {

using torch::headeronly::ScalarType;

inline const char* type_name(ScalarType type) {
  constexpr std::pair<ScalarType, const char*> kNames[] = {
      {ScalarType::Byte, "uint8"},     {ScalarType::Int, "int32"},
      {ScalarType::Long, "int64"},     {ScalarType::Float, "float32"},
      {ScalarType::Double, "float64"}, {ScalarType::BFloat16, "bfloat16"}};
  for (const auto& [known, name] : kNames)
    if (known == type) return name;
  return torch::headeronly::toString(type);
}

// A tensor among an operator's arguments.
struct Argument {
  const Tensor& tensor;
  const char* name;
};

// Kernels read and write such addresses with their widest instructions.
constexpr int64_t kAlignment = 64;

// Of views of bytes, which have any alignment.
inline void check_alignment(const void* data, const char* name, int64_t bytes) {
  check(reinterpret_cast<uintptr_t>(data) % bytes == 0, name, " is not aligned to ", bytes,
        " bytes");
}

// A tensor's shape in an error: "[2, 3]".
struct Shape {
  const Tensor& tensor;

  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    for (int64_t i = 0; i < shape.tensor.dim(); ++i)
      out << (i ? ", " : "[") << shape.tensor.size(i);
    return out << "]";
  }
};

// The data of a contiguous tensor of entries T and the given number of dimensions.
template <typename T>
T* checked_data(const Tensor& tensor, const char* name, int64_t dimensions) {
  constexpr ScalarType type = torch::headeronly::CppTypeToScalarType<std::remove_const_t<T>>::value;
  check(tensor.scalar_type() == type, name, " is of ", type_name(tensor.scalar_type()),
        ": expected ", type_name(type));
  check(tensor.dim() == dimensions, name, " has ", tensor.dim(), " dimensions: expected ",
        dimensions);
  check(tensor.is_contiguous(), name, " is not contiguous");
  check_alignment(tensor.data_ptr(), name, alignof(T));
  return static_cast<T*>(tensor.data_ptr());
}

// The data of a workspace: bytes.
inline uint8_t* checked_workspace(const Tensor& workspace) {
  auto* data = checked_data<uint8_t>(workspace, "workspace", 1);
  check_alignment(data, "workspace", kAlignment);
  return data;
}

}  // namespace molspec
