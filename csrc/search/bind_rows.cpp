// Binds staged trees as calls of a decoder that knows no trees.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.h"
#include "common/require.h"
#include "search/rows.h"

namespace py = pybind11;

namespace molspec {
namespace {

using Ids = py::array_t<int32_t, py::array::c_style>;

std::vector<RowsCall> calls(TokenRows& rows, const Ids& nodes, const Ids& path_slots,
                            const RowsOptions& options) {
  if (nodes.ndim() != 2 || nodes.shape(1) != 4 || path_slots.ndim() != 1)
    throw_invalid("nodes and path_slots: expected [node, 4] and one dimension");
  return rows.calls(reinterpret_cast<const TokenTree::StagedNode*>(nodes.data()),
                    static_cast<size_t>(nodes.shape(0)), path_slots.data(),
                    static_cast<size_t>(path_slots.size()), options);
}

}  // namespace

void bind_rows(py::module_& module) {
  bind_fields(py::class_<RowsOptions>(module, "RowsOptions"), REQUIRED(RowsOptions, pad_id),
              REQUIRED(RowsOptions, call_cost), OPTIONAL(RowsOptions, caches),
              OPTIONAL(RowsOptions, pads_left));
  py::class_<RowsCall> bound(module, "RowsCall");
  // The memory is the call's own.
  const auto add = [&](const char* name, std::vector<int64_t> RowsCall::* values, auto width) {
    bound.def_property_readonly(name, [=](const py::object& self) {
      auto& call = self.cast<RowsCall&>();
      std::vector<py::ssize_t> shape = {static_cast<py::ssize_t>((call.*values).size())};
      if constexpr (!std::is_same_v<decltype(width), std::nullptr_t>)
        shape = {static_cast<py::ssize_t>(call.memories.size()), call.*width};
      return py::array_t<int64_t>(shape, (call.*values).data(), self);
    });
  };
  bound.def_readonly("first", &RowsCall::first);
  add("token_ids", &RowsCall::token_ids, &RowsCall::width);
  add("cached_slots", &RowsCall::cached_slots, &RowsCall::first);
  add("memories", &RowsCall::memories, nullptr);
  add("paddings", &RowsCall::paddings, nullptr);
  add("nodes", &RowsCall::nodes, nullptr);
  add("slots", &RowsCall::slots, nullptr);
  add("rows", &RowsCall::rows, nullptr);
  add("columns", &RowsCall::columns, nullptr);
  py::class_<TokenRows>(module, "TokenRows")
      .def(py::init())
      .def("calls", &calls, py::arg("nodes"), py::arg("path_slots"), py::arg("options"));
}

}  // namespace molspec
