// The pybind11 module `molspec._native`: strings and small integers, no tensors of torch.
// Every concept binds itself in a function of its own, beside its code.

#include <pybind11/pybind11.h>

#include "bindings.h"

PYBIND11_MODULE(_native, module) {
  module.doc() = "Native text, drafting and search of molspec.";
  molspec::bind_layouts(module);
  molspec::bind_text(module);
  molspec::bind_drafting(module);
  molspec::bind_search(module);
}
