// Compiled with the flags of this instruction set (csrc/CMakeLists.txt).

#define MOLSPEC_KERNELS avx512_bf16
#include "cpu/kernels.inl"
