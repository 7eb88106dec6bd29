// Binds the settings of searches and the batch that runs them.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "bindings.h"
#include "common/prepared_step.h"
#include "common/require.h"
#include "search/batch.h"
#include "search/bind_step.h"
#include "search/mean.h"

namespace py = pybind11;

namespace molspec {
namespace {

// Averages the first rows of several models' log-probs into those of the first model.
void average_rows(const std::vector<LogProbs>& parts, py::ssize_t rows) {
  if (parts.empty()) throw_invalid("parts is empty: expected log-probs");
  std::vector<const float*> others;
  for (const LogProbs& part : parts) {
    if (part.ndim() != 2 || part.shape(0) < rows || part.shape(1) != parts[0].shape(1))
      throw_invalid("parts: expected each [at least ", rows, ", vocab]");
    others.push_back(part.data());
  }
  others.erase(others.begin());
  LogProbs first = parts[0];  // the same memory
  average_log_probs(first.mutable_data(), others, rows * first.shape(1));
}

// A decoder pass that needs no call into Python, and its memory.
struct Step {
  StepFunction function;
  py::array_t<uint8_t> prepared;
  LogProbs log_probs;
  int32_t block_count;  // of the cache
  py::object tensors;
  std::vector<Step> others = {};  // of further models, whose log-probs are averaged with these

  bool has_room(const TokenTree& tree) const {
    return tree.block_count() <= block_count &&
           static_cast<py::ssize_t>(tree.staged().size()) <= log_probs.shape(0) &&
           std::ranges::all_of(others, [&](const Step& other) { return other.has_room(tree); });
  }
  void operator()(const TokenTree& tree) const {
    pass(tree);
    if (others.empty()) return;
    std::vector<LogProbs> parts = {log_probs};
    for (const Step& other : others) {
      other(tree);
      parts.push_back(other.log_probs);
    }
    average_rows(parts, static_cast<py::ssize_t>(tree.staged().size()));
  }
  void pass(const TokenTree& tree) const {
    const py::gil_scoped_release release;
    const auto count = [](const auto& of) { return static_cast<int64_t>(of.size()); };
    const char* wrong = function(prepared.data(), tree.staged().data(), count(tree.staged()),
                                 tree.path_slots().data(), count(tree.path_slots()));
    if (wrong != nullptr) throw std::runtime_error(wrong);
  }
};

// Rounds that run without Python between their parts.
struct Ran {
  std::vector<Decoded> done;
  int32_t rounds = 0;
  bool lacks_room = false;  // the planned nodes need a larger cache
  double planning = 0;      // seconds
  double stepping = 0;
};

// One round; with until_done, rounds until a query is done.
Ran run(Batch& batch, const Step& step, bool until_done) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  Ran ran;
  do {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    const auto begin = Clock::now();
    batch.plan({});
    const auto planned = Clock::now();
    ran.planning += seconds(planned - begin);
    ran.lacks_room = !step.has_room(batch.tree());
    if (ran.lacks_room) break;
    step(batch.tree());
    ran.stepping += seconds(Clock::now() - planned);
    ran.done = advance(batch, step.log_probs);
    ++ran.rounds;
  } while (until_done && ran.done.empty());
  return ran;
}

void bind_decoded(py::module_& module) {
  module.attr("NON_FINITE") = kNoNumbers;
  bind_fields(py::class_<Hypothesis>(module, "Hypothesis"), REQUIRED(Hypothesis, token_ids),
              REQUIRED(Hypothesis, log_prob), REQUIRED(Hypothesis, finished),
              OPTIONAL(Hypothesis, prefix_log_prob), OPTIONAL(Hypothesis, tolerated),
              OPTIONAL(Hypothesis, token_log_probs));
  bind_fields(
      py::class_<SearchStatistics>(module, "SearchStatistics"), REQUIRED(SearchStatistics, steps),
      REQUIRED(SearchStatistics, nodes), REQUIRED(SearchStatistics, drafted_tokens),
      REQUIRED(SearchStatistics, accepted_tokens), REQUIRED(SearchStatistics, emitted_tokens));
  bind_fields(py::class_<Decoded>(module, "Decoded"), REQUIRED(Decoded, row),
              REQUIRED(Decoded, hypotheses), REQUIRED(Decoded, statistics),
              OPTIONAL(Decoded, error));
}

void bind_sampling(py::module_& module) {
  bind_fields(py::class_<Sampling>(module, "Sampling"), OPTIONAL(Sampling, temperature),
              OPTIONAL(Sampling, top_k), OPTIONAL(Sampling, top_p), OPTIONAL(Sampling, seed),
              OPTIONAL(Sampling, rejection));
  py::class_<Sampler>(module, "Sampler")
      .def(py::init<const Sampling&, uint64_t, uint32_t>(), py::kw_only(), py::arg("sampling"),
           py::arg("query_key"), py::arg("sample"))
      .def(
          "token",
          [](const Sampler& self, const LogProbs& log_probs, uint32_t position) {
            if (log_probs.ndim() != 1 || log_probs.size() == 0)
              throw_invalid("log_probs has ", log_probs.ndim(), " dimensions and ",
                            log_probs.size(), " entries: expected [vocab]");
            return self.at(log_probs.data(), static_cast<int32_t>(log_probs.size()), position)
                .token_id;
          },
          py::arg("log_probs"), py::arg("position"));
  module.def("philox", &philox);
  module.def("fixed_log", &fixed_log);
  module.def("fixed_exp", &fixed_exp);
}

// The settings of every search, then a search's own.
template <typename Spec, typename... Fields>
auto bind_spec(py::module_& module, const char* name, Fields... fields) {
  return bind_fields(py::class_<Spec>(module, name), REQUIRED(Settings, max_length),
                     OPTIONAL(Settings, min_length), OPTIONAL(Settings, token_log_probs), fields...)
      .def_property_readonly("external", [](const Spec& spec) { return spec.external(); });
}

// The same, with the options of every beam search between them.
template <typename Spec, typename... Fields>
auto bind_list_spec(py::module_& module, const char* name, Fields... fields) {
  return bind_spec<Spec>(module, name, REQUIRED(ListSpec, beam_size), REQUIRED(ListSpec, n_best),
                         OPTIONAL(ListSpec, length_penalty), fields...)
      .def(
          "length_norm",
          [](const Spec& spec, int32_t length) { return length_norm(length, spec.length_penalty); },
          py::arg("length"));
}

void bind_specs(py::module_& module) {
  bind_value(py::class_<Argmax>(module, "Argmax")
                 .def(py::init<>())
                 .def("__repr__", [](const Argmax& /*rule*/) { return "Argmax()"; }));
  bind_fields(py::class_<Relaxed>(module, "Relaxed"), REQUIRED(Relaxed, beta),
              REQUIRED(Relaxed, tau), REQUIRED(Relaxed, judged_by_drafter));
  bind_spec<SequenceSpec>(module, "SequenceSpec", REQUIRED(SequenceSpec, drafter),
                          OPTIONAL(SequenceSpec, rule), OPTIONAL(SequenceSpec, samples));
  bind_list_spec<BeamSpec>(module, "BeamSpec", OPTIONAL(BeamSpec, finished_apart),
                           OPTIONAL(BeamSpec, steps), OPTIONAL(BeamSpec, node_budget),
                           OPTIONAL(BeamSpec, min_confidence), OPTIONAL(BeamSpec, proposed))
      .def_property_readonly("drafts", &BeamSpec::drafts);
  bind_list_spec<SpeculativeBeamSpec>(module, "SpeculativeBeamSpec",
                                      REQUIRED(SpeculativeBeamSpec, nucleus),
                                      REQUIRED(SpeculativeBeamSpec, drafter));
  bind_spec<ForcedSpec>(module, "ForcedSpec");
  module.attr("SearchSpec") = union_of(std::type_identity<SearchSpec>());
}

void bind_batch(py::module_& module) {
  bind_fields(py::class_<Path>(module, "Path"), REQUIRED(Path, row), REQUIRED(Path, token_ids),
              REQUIRED(Path, log_prob), OPTIONAL(Path, slot), OPTIONAL(Path, sampler));
  py::class_<Step>(module, "Step")
      .def(py::init([](uintptr_t function, py::array_t<uint8_t> prepared, LogProbs log_probs,
                       int32_t block_count, py::object tensors) {
             return Step{reinterpret_cast<StepFunction>(function), std::move(prepared),
                         std::move(log_probs), block_count, std::move(tensors)};
           }),
           py::kw_only(), py::arg("function"), py::arg("prepared").noconvert(),
           py::arg("log_probs").noconvert(), py::arg("block_count"), py::arg("tensors"))
      .def("averaged_with", [](Step self, std::vector<Step> others) {
        self.others = std::move(others);
        return self;
      });
  module.def("average_log_probs", &average_rows, py::arg("parts").noconvert(), py::arg("rows"));
  py::class_<Ran>(module, "Ran")
      .def_readonly("done", &Ran::done)
      .def_readonly("rounds", &Ran::rounds)
      .def_readonly("lacks_room", &Ran::lacks_room)
      .def_readonly("planning", &Ran::planning)
      .def_readonly("stepping", &Ran::stepping);
  py::class_<Batch> bound(module, "Batch");
  bound
      .def(py::init<int32_t, std::shared_ptr<GuessModel>>(), py::arg("row_count"),
           py::arg("guess_model").none(false))
      .def("start", &Batch::start, py::arg("row"), py::arg("spec"), py::arg("source_ids"),
           py::arg("query_key") = 0, py::arg("prefix") = std::vector<int32_t>())
      .def("cancel", &Batch::cancel, py::arg("row"))
      .def("paths", &Batch::paths)
      .def("plan", &Batch::plan, py::arg("proposed") = std::vector<AdmittedTree>())
      .def("run", &run, py::arg("step"), py::arg("until_done") = false)
      .def_property_readonly("live_count", &Batch::live_count);
  bind_step(bound);
}

}  // namespace

void bind_search(py::module_& module) {
  bind_decoded(module);
  bind_sampling(module);
  bind_specs(module);
  bind_batch(module);
}

}  // namespace molspec
