// The CUDA library as host code, in one translation unit: every operator of csrc/cuda, registered
// for the CPU under another name (`molspec` is defined as that name by the compiler's command
// line).

#include "../../../csrc/library.cpp"

#include "cuda/acceptance_length.cpp"
#include "cuda/acceptance_length.cu"
#include "cuda/beam_rows.cpp"
#include "cuda/beam_rows.cu"
#include "cuda/engine.cpp"
#include "cuda/engine.cu"
#include "cuda/expand_drafts.cpp"
#include "cuda/expand_drafts.cu"
#include "cuda/greedy_rows.cpp"
#include "cuda/greedy_rows.cu"
#include "cuda/layers.cu"
#include "cuda/left_pad.cpp"
#include "cuda/left_pad.cu"
#include "cuda/select_hypotheses.cpp"
#include "cuda/select_hypotheses.cu"
#include "ops/acceptance_length.cpp"
#include "ops/beam_rows.cpp"
#include "ops/decoder_step.cpp"
#include "ops/encode.cpp"
#include "ops/expand_drafts.cpp"
#include "ops/fault.cpp"
#include "ops/greedy_rows.cpp"
#include "ops/guess_tensors.cpp"
#include "ops/left_pad.cpp"
#include "ops/look_ahead.cpp"
#include "ops/memory.cpp"
#include "ops/model.cpp"
#include "ops/plan_windows.cpp"
#include "ops/propose_tree.cpp"
#include "ops/propose_windows.cpp"
#include "ops/rank_tokens.cpp"
#include "ops/replay_beams.cpp"
#include "ops/select_hypotheses.cpp"
#include "ops/select_leaves.cpp"
#include "ops/stage_beams.cpp"
#include "ops/stage_nodes.cpp"
#include "ops/verify_nodes.cpp"
#include "ops/window_rows.cpp"

// Another order of threads and blocks; a barrier of every block to leave out, -1 for none; how many
// multiprocessors the machine says it has.
extern "C" __attribute__((visibility("default"))) void emulation_set(unsigned seed,
                                                                     int skipped_barrier,
                                                                     int multiprocessors) {
  emulation::machine.order.seed(seed);
  emulation::machine.skipped_barrier = skipped_barrier;
  emulation::machine.multiprocessors = multiprocessors;
}
