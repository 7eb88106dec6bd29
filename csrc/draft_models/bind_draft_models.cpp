// Binds the paths of draft models, and trees of positions.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.h"
#include "draft_models/continuations.h"
#include "draft_models/position_tree.h"
#include "draft_models/spec_drafter_paths.h"
#include "search/bind_step.h"

namespace py = pybind11;

namespace molspec {
namespace {

// Shared by draft models.
template <typename Paths>
void bind_paths(py::class_<Paths>& bound) {
  bound.def("start", &Paths::start, py::arg("row"), py::arg("source_ids"))
      .def("release", &Paths::release, py::arg("row"))
      .def("request", &Paths::request, py::arg("paths"), py::arg("counts"))
      .def_property_readonly("trees", [](const Paths& self) {
        return std::vector<DraftTree>(self.trees());  // the next request() overwrites its own
      });
  bind_step(bound);
}

void bind_continuations(py::module_& module) {
  py::class_<Continuations> bound(module, "Continuations");
  bound
      .def(py::init<int32_t, std::shared_ptr<GuessModel>, const DrafterOptions&, int32_t>(),
           py::kw_only(), py::arg("row_count"), py::arg("guess_model").none(false),
           py::arg("drafts"), py::arg("width") = 1)
      .def("paths", &Continuations::paths)
      .def("plan", &Continuations::plan, py::arg("proposed") = std::vector<AdmittedTree>());
  bind_paths(bound);
}

// One tree for each row of log_probs [row, position, vocab].
std::vector<DraftTree> position_trees(const GuessModel& model, const LogProbs& log_probs,
                                      int32_t node_budget, float min_log_prob) {
  const int32_t vocab_size = model.roles().vocab_size();
  if (log_probs.ndim() != 3 || log_probs.shape(2) != vocab_size)
    throw_invalid("log_probs: expected [row, position, ", vocab_size, "]");
  PositionTrees drafter(node_budget, min_log_prob);
  std::vector<DraftTree> trees(static_cast<size_t>(log_probs.shape(0)));
  std::vector<const float*> positions(static_cast<size_t>(log_probs.shape(1)));
  const float* row = log_probs.data();
  for (DraftTree& tree : trees) {
    for (const float*& position : positions) {
      position = row;
      row += vocab_size;
    }
    drafter.draft(positions, vocab_size, model.roles().special(), tree);
  }
  return trees;
}

void bind_spec_drafter(py::module_& module) {
  module.def("position_trees", &position_trees, py::kw_only(), py::arg("guess_model"),
             py::arg("log_probs"), py::arg("node_budget"), py::arg("min_log_prob"));
  py::class_<SpecDrafterPaths> bound(module, "SpecDrafterPaths");
  bound
      .def(py::init<int32_t, std::shared_ptr<GuessModel>, int32_t, float>(), py::kw_only(),
           py::arg("row_count"), py::arg("guess_model").none(false), py::arg("node_budget"),
           py::arg("min_log_prob"))
      .def("plan", &SpecDrafterPaths::plan);
  bind_paths(bound);
}

}  // namespace

void bind_draft_models(py::module_& module) {
  bind_continuations(module);
  bind_spec_drafter(module);
}

}  // namespace molspec
