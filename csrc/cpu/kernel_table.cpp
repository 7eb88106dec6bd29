// Every dense kernel. CMake compiles this file once for each instruction set, and defines its name,
// MOLSPEC_INSTRUCTION_SET, and that of its table, MOLSPEC_KERNELS.

#include "cpu/attention.inl"
#include "cpu/keys.inl"
#include "cpu/norms.inl"
#include "cpu/rotation.inl"
#include "cpu/sparse.inl"

namespace molspec::cpu {

extern const Kernels MOLSPEC_KERNELS;
const Kernels MOLSPEC_KERNELS = {MOLSPEC_INSTRUCTION_SET,
                                 linear_float32,
                                 linear_bfloat16,
                                 linear_int8,
                                 layer_norm,
                                 rotate,
                                 store_keys,
                                 attention,
                                 log_softmax};

}  // namespace molspec::cpu
