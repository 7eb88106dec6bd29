// Binds the drafters to Python.

#pragma once

#include <pybind11/pybind11.h>

namespace molspec {

void bind_drafting(pybind11::module_& module);

}  // namespace molspec
