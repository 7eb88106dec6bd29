// Chooses the table of kernels once, by the processor's instruction sets.

#include "cpu/kernels.h"

#include <torch/csrc/stable/library.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__linux__) && defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

namespace molspec::cpu {

extern const Kernels kernels_portable;
#if defined(__x86_64__)
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx2_vnni;
extern const Kernels kernels_avx512;
extern const Kernels kernels_avx512_vnni;
extern const Kernels kernels_avx512_bf16;
extern const Kernels kernels_avx512_amx;
#elif defined(__linux__) && defined(__aarch64__)
extern const Kernels kernels_neon_dotprod;
#endif

namespace {

#if defined(__x86_64__)
// Not all compilers have a name for it in __builtin_cpu_supports.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 4 & 1);
}

bool has_amx_int8() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (edx >> 24 & 3) == 3;
}

// Asks for AMX's tiles, which Linux gives to a process, its threads and the processes that it forks
// only on request. Returns why they are refused; nothing if they are not.
std::string request_tiles() {
#if defined(__linux__)
  constexpr int kRequest = 0x1023, kTileData = 18;  // of asm/prctl.h and the processor's manual
  if (syscall(SYS_arch_prctl, kRequest, kTileData) == 0) return "";
  return "the system refuses AMX: " + std::generic_category().message(errno);
#else
  return "AMX is used on Linux only";
#endif
}
#endif

// Why AMX is not used; empty if it is, or if the processor has none. Written by `choose`.
std::string amx_fault;

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
  if (fits(kernels_avx512_amx, vnni && has_amx_int8())) {
    amx_fault = request_tiles();
    if (amx_fault.empty()) return kernels_avx512_amx;
  }
  if (fits(kernels_avx512_bf16, bf16 && (requested || !slow_bf16))) return kernels_avx512_bf16;
  if (fits(kernels_avx512_vnni, vnni)) return kernels_avx512_vnni;
  if (fits(kernels_avx512, avx512)) return kernels_avx512;
  if (fits(kernels_avx2_vnni, avx2 && has_avx_vnni())) return kernels_avx2_vnni;
  if (fits(kernels_avx2, avx2)) return kernels_avx2;
#elif defined(__linux__) && defined(__aarch64__)
  if (fits(kernels_neon_dotprod, getauxval(AT_HWCAP) & HWCAP_ASIMDDP)) return kernels_neon_dotprod;
#endif
  if (fits(kernels_portable, true)) return kernels_portable;
  throw std::runtime_error(std::string("MOLSPEC_INSTRUCTION_SET is '") + wanted +
                           "': expected portable, avx2, avx2_vnni, avx512, avx512_vnni, "
                           "avx512_bf16, avx512_amx or neon_dotprod, and a processor that has it" +
                           (amx_fault.empty() ? "" : "; " + amx_fault));
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& table = choose();
  return table;
}

std::string instruction_set_op() { return kernels().instruction_set; }

std::string amx_fault_op() {
  kernels();
  return amx_fault;
}

STABLE_TORCH_LIBRARY_IMPL(molspec, CompositeExplicitAutograd, library) {
  library.impl("instruction_set", TORCH_BOX(&instruction_set_op));
  library.impl("amx_fault", TORCH_BOX(&amx_fault_op));
}

}  // namespace molspec::cpu
