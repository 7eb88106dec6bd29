// The CUDA library as host code, in one translation unit: every operator of csrc/cuda, registered
// for the CPU under another name (`molspec` is defined as that name by the compiler's command
// line).

#include "../../../csrc/library.cpp"

#include "cuda/beam_rows.cu"
#include "cuda/dense.cpp"
#include "cuda/dense.cu"
#include "cuda/engine.cpp"
#include "cuda/engine.cu"
#include "cuda/greedy_rows.cu"
#include "cuda/layers.cu"
#include "cuda/rounds.cpp"
#include "ops/dense.cpp"
#include "ops/model.cpp"
#include "ops/steps.cpp"

// Another order of threads and blocks; a barrier of every block to leave out, -1 for none; how many
// multiprocessors the machine says it has.
extern "C" __attribute__((visibility("default"))) void emulation_set(unsigned seed,
                                                                     int skipped_barrier,
                                                                     int multiprocessors) {
  emulation::machine.order.seed(seed);
  emulation::machine.skipped_barrier = skipped_barrier;
  emulation::machine.multiprocessors = multiprocessors;
}
