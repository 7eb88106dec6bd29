// Compiled with the flags of this instruction set (csrc/CMakeLists.txt).

#define MOLSPEC_KERNELS avx512
#include "cpu/kernels.inl"
