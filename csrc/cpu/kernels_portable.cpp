// Compiled with the flags of this instruction set (csrc/CMakeLists.txt).

#define MOLSPEC_KERNELS portable
#include "cpu/kernels.inl"
