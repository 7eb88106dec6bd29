#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings.h"
#include "text/tokenizer.h"

namespace py = pybind11;
using molspec::text::TokenIds;
using molspec::text::TokenizationError;

namespace {

// The UTF-8 of a string. A lone surrogate, which Python's strings may contain, has none.
std::string_view utf8(const py::str& text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data == nullptr) {
    PyErr_Clear();
    throw TokenizationError("not SMILES: holds half a surrogate pair");
  }
  return {data, static_cast<std::size_t>(size)};
}

}  // namespace

namespace molspec {

void bind_text(py::module_& module) {
  py::register_exception<TokenizationError>(module, "TokenizationError", PyExc_ValueError);

  module.def(
      "tokenize", [](const py::str& smiles) { return molspec::text::tokenize(utf8(smiles)); },
      py::arg("smiles"));

  py::class_<TokenIds>(module, "TokenIds")
      .def(py::init<std::vector<std::string>, const std::vector<std::int32_t>&>(),
           py::arg("tokens"), py::arg("special_ids"))
      .def(
          "encode",
          [](const TokenIds& self, const py::str& smiles) { return self.encode(utf8(smiles)); },
          py::arg("smiles"));
}

}  // namespace molspec
