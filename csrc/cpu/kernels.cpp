// Chooses the table of kernels once, by the processor's instruction sets.

#include "cpu/kernels.h"

#include <torch/csrc/stable/library.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace molspec::cpu {

extern const Kernels kernels_portable;
#if defined(__x86_64__)
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx2_vnni;
extern const Kernels kernels_avx512;
extern const Kernels kernels_avx512_vnni;
extern const Kernels kernels_avx512_bf16;
#endif

namespace {

#if defined(__x86_64__)
// Not all compilers have a name for it in __builtin_cpu_supports.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 4 & 1);
}
#endif

// Best first; the portable table is last and always runs.
const Kernels& choose() {
  const char* wanted = std::getenv("MOLSPEC_INSTRUCTION_SET");
  const bool requested = wanted && *wanted;
  const auto fits = [&](const Kernels& table, bool supported) {
    return supported && (!requested || std::string(wanted) == table.instruction_set);
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  const bool bf16 = vnni && __builtin_cpu_supports("avx512bf16");
  // Intel's bfloat16 instruction is slower than the two multiply-adds that it replaces.
  const bool slow_bf16 = __builtin_cpu_is("intel");
  if (fits(kernels_avx512_bf16, bf16 && (requested || !slow_bf16))) return kernels_avx512_bf16;
  if (fits(kernels_avx512_vnni, vnni)) return kernels_avx512_vnni;
  if (fits(kernels_avx512, avx512)) return kernels_avx512;
  if (fits(kernels_avx2_vnni, avx2 && has_avx_vnni())) return kernels_avx2_vnni;
  if (fits(kernels_avx2, avx2)) return kernels_avx2;
#endif
  if (fits(kernels_portable, true)) return kernels_portable;
  throw std::runtime_error(std::string("MOLSPEC_INSTRUCTION_SET is '") + wanted +
                           "': expected portable, avx2, avx2_vnni, avx512, avx512_vnni or "
                           "avx512_bf16, and a processor that has it");
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& table = choose();
  return table;
}

std::string instruction_set_op() { return kernels().instruction_set; }

STABLE_TORCH_LIBRARY_IMPL(molspec, CompositeExplicitAutograd, library) {
  library.impl("instruction_set", TORCH_BOX(&instruction_set_op));
}

}  // namespace molspec::cpu
