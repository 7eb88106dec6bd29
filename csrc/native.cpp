// The pybind11 module `molspec._native`: strings and small integers, no tensors of torch.
// Every concept has a binding function beside its code. Bound here is Python's knowledge of the
// kernels: their limits, and the layout of the rows of searches on a device.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>

#include "bindings.h"
#include "common/answers.h"
#include "common/limits.h"
#include "common/prepared_step.h"
#include "ops/kinds.h"

namespace py = pybind11;
using py::literals::operator""_a;

namespace molspec {
namespace {

void bind_layouts(py::module_& module) {
  module.attr("ACTIVATIONS") = py::tuple(py::cast(std::to_array(kActivations)));
  module.attr("NORM_KINDS") = py::tuple(py::cast(std::to_array(kNormKinds)));
  module.attr("POSITIONS") = py::tuple(py::cast(std::to_array(kPositions)));
  module.attr("LIMITS") =
      py::dict("block_positions"_a = kBlockPositions, "tree_nodes"_a = kMostTreeNodes,
               "tree_states"_a = kTreeStates, "beam_size"_a = kWidestBeam,
               "ngram_symbols"_a = kMostNgramSymbols, "threads"_a = kMostThreads,
               "chunk_rows"_a = kChunkRows, "step_nodes"_a = kFewestNodes,
               "prepared_step_bytes"_a = kPreparedStepBytes);
  // CMAKE_CUDA_ARCHITECTURES; empty if the CUDA operators are not built.
  module.attr("CUDA_CHIPS") = MOLSPEC_CUDA_CHIPS;

  PYBIND11_NUMPY_DTYPE(GreedyAnswer, log_prob, state, finished, token_count, steps, nodes,
                       drafted_tokens, accepted_tokens, emitted_tokens, first_node, max_length);
  PYBIND11_NUMPY_DTYPE(BeamAnswer, state, count, finished_count, length, steps, nodes,
                       drafted_tokens, accepted_tokens, emitted_tokens, live_count, first_node,
                       max_length);
  PYBIND11_NUMPY_DTYPE(BeamHypothesis, log_prob, node, length, finished);
  module.attr("LAYOUTS") = py::dict("GreedyAnswer"_a = py::dtype::of<GreedyAnswer>(),
                                    "BeamAnswer"_a = py::dtype::of<BeamAnswer>(),
                                    "BeamHypothesis"_a = py::dtype::of<BeamHypothesis>());
  module.attr("STATES") = py::dict("live"_a = static_cast<int32_t>(AnswerState::kLive),
                                   "no_numbers"_a = static_cast<int32_t>(AnswerState::kNoNumbers));
}

}  // namespace
}  // namespace molspec

PYBIND11_MODULE(_native, module) {
  module.doc() = "Native drafting and search of molspec.";
  molspec::bind_layouts(module);
  molspec::bind_drafting(module);
  molspec::bind_search(module);
  molspec::bind_draft_models(module);
  molspec::bind_rows(module);
}
