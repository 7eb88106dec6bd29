// Every dense kernel, written once. Compiled by kernels_<instruction set>.cpp, which defines
// MOLSPEC_KERNELS, the name of the table.

#include "cpu/attention.inl"
#include "cpu/layer_norm.inl"
#include "cpu/linear.inl"
#include "cpu/log_softmax.inl"

namespace molspec::cpu {

#define MOLSPEC_TEXT(name) #name
#define MOLSPEC_NAME(name) MOLSPEC_TEXT(name)
#define MOLSPEC_TABLE(name) kernels_##name
#define MOLSPEC_SYMBOL(name) MOLSPEC_TABLE(name)

extern const Kernels MOLSPEC_SYMBOL(MOLSPEC_KERNELS);
const Kernels MOLSPEC_SYMBOL(MOLSPEC_KERNELS) = {MOLSPEC_NAME(MOLSPEC_KERNELS),
                                                 linear_float32,
                                                 linear_bfloat16,
                                                 layer_norm,
                                                 attention,
                                                 log_softmax};

}  // namespace molspec::cpu
