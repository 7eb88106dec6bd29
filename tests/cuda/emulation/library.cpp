// Compiles the CUDA library as host code, in one translation unit. Registers every operator of
// csrc/cuda for the CPU in another namespace: the compiler's command line defines `molspec` as its
// name.

#include "../../../csrc/library.cpp"

#include "cuda/dense.cpp"
#include "cuda/dense.cu"
#include "cuda/engine/engine.cpp"
#include "cuda/engine/engine.cu"
#include "cuda/engine/layers.cu"
#include "cuda/engine/replay.cpp"
#include "cuda/rounds/beam_rows.cu"
#include "cuda/rounds/greedy_rows.cu"
#include "cuda/rounds/rounds.cpp"
#include "ops/model.cpp"
#include "ops/steps.cpp"

// Sets the seed of the order of threads and blocks, the barrier that every block skips (-1: none),
// and the number of multiprocessors that the machine reports.
extern "C" __attribute__((visibility("default"))) void emulation_set(unsigned seed,
                                                                     int skipped_barrier,
                                                                     int multiprocessors) {
  emulation::machine.order.seed(seed);
  emulation::machine.skipped_barrier = skipped_barrier;
  emulation::machine.multiprocessors = multiprocessors;
}
