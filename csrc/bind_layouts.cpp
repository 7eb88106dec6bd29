// Binds what Python must know of kernels: what they have room for, and how the rows of searches
// that stay on a device are laid out.

#include <pybind11/numpy.h>

#include "bindings.h"
#include "common/answers.h"
#include "common/block.h"
#include "common/limits.h"
#include "common/prepared_step.h"

namespace py = pybind11;

namespace molspec {

void bind_layouts(py::module_& module) {
  py::dict limits;
  limits["block_positions"] = kBlockPositions;
  limits["tree_nodes"] = kMostTreeNodes;
  limits["tree_states"] = kTreeStates;
  limits["draft_depth"] = kMostDraftDepth;
  limits["beam_size"] = kWidestBeam;
  limits["beam_nodes"] = kMostBeamBlocks * kBlockPositions;
  limits["ngram_symbols"] = kMostNgramSymbols;
  limits["threads"] = kMostThreads;
  limits["chunk_rows"] = kChunkRows;
  limits["prepared_step_bytes"] = kPreparedStepBytes;
  module.attr("LIMITS") = limits;
  // As CMAKE_CUDA_ARCHITECTURES lists them; empty where the CUDA operators are not built.
  module.attr("CUDA_CHIPS") = MOLSPEC_CUDA_CHIPS;

  PYBIND11_NUMPY_DTYPE(GreedyAnswer, log_prob, state, finished, token_count, steps, nodes,
                       drafted_tokens, accepted_tokens, emitted_tokens, first_node, max_length);
  PYBIND11_NUMPY_DTYPE(BeamAnswer, state, count, finished_count, length, steps, nodes,
                       drafted_tokens, accepted_tokens, emitted_tokens, planned_count, first_node,
                       max_length, used_count, looked_from);
  PYBIND11_NUMPY_DTYPE(BeamPlace, log_prob, node, length, finished, draft_count);
  PYBIND11_NUMPY_DTYPE(BeamNode, token_id, position, first_child, next_sibling, known, kept);
  py::dict layouts;
  layouts["GreedyAnswer"] = py::dtype::of<GreedyAnswer>();
  layouts["BeamAnswer"] = py::dtype::of<BeamAnswer>();
  layouts["BeamPlace"] = py::dtype::of<BeamPlace>();
  layouts["BeamNode"] = py::dtype::of<BeamNode>();
  module.attr("LAYOUTS") = layouts;
  py::dict states;
  states["live"] = static_cast<int32_t>(AnswerState::kLive);
  states["no_numbers"] = static_cast<int32_t>(AnswerState::kNoNumbers);
  module.attr("STATES") = states;
}

}  // namespace molspec
