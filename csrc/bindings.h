// What each part of molspec binds into the module `molspec._native`.

#pragma once

#include <pybind11/pybind11.h>

namespace molspec {

void bind_layouts(pybind11::module_& module);
void bind_text(pybind11::module_& module);
void bind_drafting(pybind11::module_& module);
void bind_search(pybind11::module_& module);

}  // namespace molspec
