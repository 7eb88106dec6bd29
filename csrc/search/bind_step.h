// Binds what searches and draft models tell of a step of the decoder, and how they read it.

#pragma once

#include <pybind11/numpy.h>

#include "common/require.h"
#include "search/token_tree.h"

namespace molspec {

using LogProbs = pybind11::array_t<float, pybind11::array::c_style>;

template <typename Searches>
auto advance(Searches& batch, const LogProbs& log_probs) {
  const auto staged = static_cast<pybind11::ssize_t>(batch.tree().staged().size());
  const int32_t vocab_size = batch.model().roles().vocab_size();
  if (log_probs.ndim() != 2 || log_probs.shape(0) < staged || log_probs.shape(1) != vocab_size)
    throw_invalid("log_probs: expected [at least ", staged, ", ", vocab_size, "]");
  return batch.advance(log_probs.data(), vocab_size);
}

// Arguments of a step. Arrays are copies, because a search's own memory moves.
template <typename Searches>
void bind_step(pybind11::class_<Searches>& bound) {
  using Integers = pybind11::array_t<int32_t>;
  static_assert(sizeof(TokenTree::StagedNode) == 4 * sizeof(int32_t));
  bound.def("advance", &advance<Searches>, pybind11::arg("log_probs"))
      .def_property_readonly("block_count",
                             [](const Searches& self) { return self.tree().block_count(); })
      .def_property_readonly("nodes",
                             [](const Searches& self) {
                               const auto& staged = self.tree().staged();
                               return Integers({staged.size(), size_t{4}},
                                               reinterpret_cast<const int32_t*>(staged.data()));
                             })
      .def_property_readonly("path_slots", [](const Searches& self) {
        const auto& slots = self.tree().path_slots();
        return Integers(slots.size(), slots.data());
      });
}

}  // namespace molspec
