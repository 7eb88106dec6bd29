// Compiled with the flags of this instruction set (csrc/CMakeLists.txt).

#define MOLSPEC_KERNELS avx512_vnni
#include "cpu/kernels.inl"
