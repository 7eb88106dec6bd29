// Compiled with the flags of this instruction set (csrc/CMakeLists.txt).

#define MOLSPEC_KERNELS avx2
#include "cpu/kernels.inl"
