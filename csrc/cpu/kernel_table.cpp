// Every dense kernel. CMake compiles this file once for each instruction set, whose name is
// MOLSPEC_KERNELS.

#include "cpu/attention.inl"
#include "cpu/linear.inl"
#include "cpu/norms.inl"

namespace molspec::cpu {

#define MOLSPEC_TEXT(name) #name
#define MOLSPEC_NAME(name) MOLSPEC_TEXT(name)
#define MOLSPEC_TABLE(name) kernels_##name
#define MOLSPEC_SYMBOL(name) MOLSPEC_TABLE(name)

extern const Kernels MOLSPEC_SYMBOL(MOLSPEC_KERNELS);
const Kernels MOLSPEC_SYMBOL(MOLSPEC_KERNELS) = {MOLSPEC_NAME(MOLSPEC_KERNELS),
                                                 linear_float32,
                                                 linear_bfloat16,
                                                 linear_int8,
                                                 layer_norm,
                                                 attention,
                                                 log_softmax};

}  // namespace molspec::cpu
