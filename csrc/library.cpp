// Every operator of molspec, with its schema. The operators of the engine and of dense batches run
// everywhere: ops/ defines them and checks their tensors, cpu/ and cuda/ compute them. The
// operators of rounds on a device are for CUDA only: cuda/rounds/greedy_rows.h and
// cuda/rounds/beam_rows.h define them. Their references are tests/reference and, for the rounds,
// search/.

#include <torch/csrc/stable/library.h>

STABLE_TORCH_LIBRARY(molspec, library) {
  // A part of a packed model in int8.
  library.def(
      "pack_int8(Tensor rows, int first, Tensor(a!) panels, Tensor(b!) scales, "
      "Tensor(c!) offsets, Tensor(d!) by_rows) -> ()");
  // The engine: a packed model (weights, table) and caches of keys and values in blocks.
  library.def(
      "encode(Tensor weights, Tensor table, Tensor source_ids, Tensor source_offsets, "
      "Tensor memories, Tensor(a!) memory_cache, Tensor(b!) workspace) -> ()");
  library.def(
      "decoder_step(Tensor weights, Tensor table, Tensor nodes, Tensor path_slots, "
      "Tensor memories, Tensor memory_cache, Tensor(a!) kv_cache, Tensor(b!) workspace, "
      "Tensor(c!) log_probs, Tensor(d!) hidden_states) -> ()");
  // The same without its nodes, as bytes for callers without torch (common/prepared_step.h).
  library.def(
      "prepare_step(Tensor weights, Tensor table, Tensor nodes, Tensor path_slots, "
      "Tensor memories, Tensor memory_cache, Tensor kv_cache, Tensor workspace, Tensor log_probs, "
      "Tensor hidden_states, Tensor(a!) prepared) -> ()");
  // The address of a StepFunction that replays captured steps (cuda/engine/replay.cpp).
  library.def("replay_function(Tensor weights) -> int");
  // A device checks values itself; this waits and raises the error of the last call.
  library.def("refuse_fault(Tensor workspace) -> ()");
  library.def("workspace_size(Tensor weights, Tensor table, int rows, int positions) -> int");

  // Greedy decoding on a device: a round consists of these and decoder_step.
  library.def(
      "propose_tree(Tensor answers, Tensor(a!) drafts, Tensor tables, Tensor(b!) texts, "
      "Tensor(c!) states, int max_depth, int max_turns, float min_log_prob) -> ()");
  library.def(
      "stage_nodes(Tensor(a!) answers, Tensor slots, Tensor drafts, Tensor(b!) nodes, "
      "Tensor(c!) path_slots, int bos_id) -> ()");
  library.def(
      "verify_nodes(Tensor(a!) answers, Tensor(b!) slots, Tensor drafts, Tensor log_probs, "
      "int eos_id) -> ()");

  // Beam search on a device: the same. cuda/rounds/rounds.cpp names the tensors of `beams` and
  // `best`.
  library.def("stage_beams(Tensor(a!)[] beams, Tensor(b!) nodes, int beam_size, int bos_id) -> ()");
  library.def("rank_tokens(Tensor nodes, Tensor log_probs, Tensor(a!)[] best) -> ()");
  library.def(
      "extend_beams(Tensor(a!)[] beams, Tensor[] best, Tensor length_norms, int beam_size, "
      "int eos_id) -> ()");

  // The name of the kernels that run (cpu/kernels.cpp).
  library.def("instruction_set() -> str");
  library.def("amx_fault() -> str");
  // The threads that a step on the CPU uses.
  library.def("set_num_threads(int threads) -> ()");
  library.def("get_num_threads() -> int");

  // Dense batches, padded on the left: for loops without a cache.
  library.def("left_pad(Tensor token_ids, Tensor lengths, int pad_id) -> (Tensor, Tensor)");
  library.def(
      "expand_drafts(Tensor token_ids, Tensor position_offsets, Tensor query_indices, "
      "Tensor draft_ids) -> (Tensor, Tensor, Tensor)");
  library.def(
      "acceptance_length(Tensor draft_ids, Tensor draft_lengths, Tensor predicted_ids) -> Tensor");
}
