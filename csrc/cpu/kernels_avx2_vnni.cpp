// Compiled with the flags of this instruction set (csrc/CMakeLists.txt).

#define MOLSPEC_KERNELS avx2_vnni
#include "cpu/kernels.inl"
