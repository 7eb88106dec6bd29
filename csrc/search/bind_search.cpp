// Binds the specifications of searches, and the batch that runs them.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <chrono>
#include <optional>
#include <stdexcept>

#include "bindings.h"
#include "common/prepared_step.h"
#include "search/batch.h"
#include "search/continuations.h"
#include "search/masked_places.h"
#include "search/place_tree.h"

namespace py = pybind11;

namespace molspec {
namespace {

using LogProbs = py::array_t<float, py::array::c_style>;

// Arrays are copies: a search's own memory moves.
py::array_t<int32_t> staged_nodes(const TokenTree& tree) {
  static_assert(sizeof(TokenTree::StagedNode) == 4 * sizeof(int32_t));
  const auto& staged = tree.staged();
  return py::array_t<int32_t>({static_cast<py::ssize_t>(staged.size()), py::ssize_t{4}},
                              reinterpret_cast<const int32_t*>(staged.data()));
}

py::array_t<int32_t> path_slots(const TokenTree& tree) {
  const auto& slots = tree.path_slots();
  return py::array_t<int32_t>(static_cast<py::ssize_t>(slots.size()), slots.data());
}

template <typename Searches>
auto advance(Searches& batch, const LogProbs& log_probs) {
  const auto staged = static_cast<py::ssize_t>(batch.tree().staged().size());
  const int32_t vocab_size = batch.model().roles().vocab_size();
  if (log_probs.ndim() != 2 || log_probs.shape(0) < staged || log_probs.shape(1) != vocab_size)
    throw std::invalid_argument("log_probs: expected [at least " + std::to_string(staged) + ", " +
                                std::to_string(vocab_size) + "]");
  return batch.advance(log_probs.data(), vocab_size);
}

// A pass of the decoder that needs nobody to call it, and the memory that it works in.
struct Step {
  StepFunction function;
  py::array_t<uint8_t> prepared;
  LogProbs log_probs;
  int32_t block_count;  // of the cache
  py::object tensors;

  bool has_room(const TokenTree& tree) const {
    return tree.block_count() <= block_count &&
           static_cast<py::ssize_t>(tree.staged().size()) <= log_probs.shape(0);
  }
  void operator()(const TokenTree& tree) const {
    const py::gil_scoped_release release;
    const auto count = [](const auto& of) { return static_cast<int64_t>(of.size()); };
    const char* wrong = function(prepared.data(), tree.staged().data(), count(tree.staged()),
                                 tree.path_slots().data(), count(tree.path_slots()));
    if (wrong != nullptr) throw std::runtime_error(wrong);
  }
};

// Rounds with nobody between their parts.
struct Ran {
  std::vector<Decoded> done;
  int32_t rounds = 0;
  bool lacks_room = false;  // what is planned waits for a step that has room
  double planning = 0;      // seconds
  double stepping = 0;
};

// One round; until_done as many as it takes until a query is done.
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

// A spec of values, checked.
template <typename Spec>
std::shared_ptr<Spec> checked(Spec spec) {
  spec.check();
  return std::make_shared<Spec>(std::move(spec));
}

template <typename Spec>
Spec lists(int32_t beam_size, int32_t n_best, int32_t max_length, double length_penalty) {
  Spec spec;
  spec.beam_size = beam_size;
  spec.n_best = n_best;
  spec.max_length = max_length;
  spec.length_penalty = length_penalty;
  return spec;
}

void bind_decoded(py::module_& module) {
  module.attr("NON_FINITE") = kNoNumbers;
  py::class_<Hypothesis>(module, "Hypothesis")
      .def(py::init([](std::vector<int32_t> token_ids, double log_prob, bool finished) {
             return Hypothesis{std::move(token_ids), log_prob, finished};
           }),
           py::kw_only(), py::arg("token_ids"), py::arg("log_prob"), py::arg("finished"))
      .def_readonly("inclusion", &Hypothesis::inclusion)
      .def_readonly("tolerated", &Hypothesis::tolerated)
      .def_readonly("token_ids", &Hypothesis::token_ids)
      .def_readonly("log_prob", &Hypothesis::log_prob)
      .def_readonly("finished", &Hypothesis::finished);
  py::class_<SearchStatistics>(module, "SearchStatistics")
      .def(py::init([](int64_t steps, int64_t nodes, int64_t drafted_tokens,
                       int64_t accepted_tokens, int64_t emitted_tokens) {
             return SearchStatistics{steps, nodes, drafted_tokens, accepted_tokens, emitted_tokens};
           }),
           py::kw_only(), py::arg("steps"), py::arg("nodes"), py::arg("drafted_tokens"),
           py::arg("accepted_tokens"), py::arg("emitted_tokens"))
      .def_readonly("steps", &SearchStatistics::steps)
      .def_readonly("nodes", &SearchStatistics::nodes)
      .def_readonly("drafted_tokens", &SearchStatistics::drafted_tokens)
      .def_readonly("accepted_tokens", &SearchStatistics::accepted_tokens)
      .def_readonly("emitted_tokens", &SearchStatistics::emitted_tokens);
  py::class_<Decoded>(module, "Decoded")
      .def(py::init([](int32_t query, std::vector<Hypothesis> hypotheses,
                       const SearchStatistics& statistics, std::string error) {
             return Decoded{query, std::move(hypotheses), statistics, std::move(error)};
           }),
           py::kw_only(), py::arg("query"), py::arg("hypotheses"), py::arg("statistics"),
           py::arg("error") = "")
      .def_readonly("query", &Decoded::query)
      .def_readonly("hypotheses", &Decoded::hypotheses)
      .def_readonly("statistics", &Decoded::statistics)
      .def_readonly("error", &Decoded::error);
}

void bind_lists(py::module_& module) {
  py::class_<ListSpec, SearchSpec, std::shared_ptr<ListSpec>>(module, "ListSpec")
      .def_readonly("beam_size", &ListSpec::beam_size)
      .def_readonly("n_best", &ListSpec::n_best)
      .def_readonly("max_length", &ListSpec::max_length)
      .def(
          "length_norm",
          [](const ListSpec& spec, int32_t length) {
            return length_norm(length, spec.length_penalty);
          },
          py::arg("length"));
  py::class_<BeamSpec, ListSpec, std::shared_ptr<BeamSpec>>(module, "BeamSpec")
      .def(py::init([](int32_t beam_size, int32_t n_best, int32_t max_length, double length_penalty,
                       bool finished_apart, int32_t steps, int32_t node_budget,
                       float min_confidence, bool proposed) {
             auto spec = lists<BeamSpec>(beam_size, n_best, max_length, length_penalty);
             spec.finished_apart = finished_apart;
             spec.look_ahead = {steps, node_budget, min_confidence};
             spec.proposed = proposed;
             return checked(spec);
           }),
           py::kw_only(), py::arg("beam_size"), py::arg("n_best"), py::arg("max_length"),
           py::arg("length_penalty") = 0.0, py::arg("finished_apart") = false, py::arg("steps") = 0,
           py::arg("node_budget") = 0, py::arg("min_confidence") = 1.0F,
           py::arg("proposed") = false)
      .def_readonly("finished_apart", &BeamSpec::finished_apart)
      .def_readonly("proposed", &BeamSpec::proposed)
      .def_property_readonly("steps", [](const BeamSpec& spec) { return spec.look_ahead.steps; })
      .def_property_readonly("node_budget",
                             [](const BeamSpec& spec) { return spec.look_ahead.node_budget; })
      .def_property_readonly("min_confidence",
                             [](const BeamSpec& spec) { return spec.look_ahead.min_confidence; })
      .def_property_readonly("drafts",
                             [](const BeamSpec& spec) { return spec.look_ahead.drafts(); });
  // No BeamSpec to Python: where a device has rounds for those, this one's are the host's.
  py::class_<StochasticBeamSpec, ListSpec, std::shared_ptr<StochasticBeamSpec>>(
      module, "StochasticBeamSpec")
      .def(py::init([](int32_t samples, int32_t max_length, const Sampling& sampling, int32_t steps,
                       int32_t node_budget, float min_confidence, bool proposed) {
             auto spec = lists<StochasticBeamSpec>(samples + 1, samples, max_length, 0.0);
             spec.finished_apart = false;
             spec.look_ahead = {steps, node_budget, min_confidence};
             spec.proposed = proposed;
             spec.sampling = sampling;
             return checked(spec);
           }),
           py::kw_only(), py::arg("samples"), py::arg("max_length"), py::arg("sampling"),
           py::arg("steps") = 0, py::arg("node_budget") = 0, py::arg("min_confidence") = 1.0F,
           py::arg("proposed") = false);
  py::class_<SpeculativeBeamSpec, ListSpec, std::shared_ptr<SpeculativeBeamSpec>>(
      module, "SpeculativeBeamSpec")
      .def(py::init([](int32_t beam_size, int32_t n_best, int32_t max_length, double length_penalty,
                       float nucleus, const DrafterOptions& drafter) {
             auto spec = lists<SpeculativeBeamSpec>(beam_size, n_best, max_length, length_penalty);
             spec.nucleus = nucleus;
             spec.drafter = drafter;
             return checked(spec);
           }),
           py::kw_only(), py::arg("beam_size"), py::arg("n_best"), py::arg("max_length"),
           py::arg("length_penalty") = 0.0, py::arg("nucleus"), py::arg("drafter"))
      .def_readonly("nucleus", &SpeculativeBeamSpec::nucleus)
      .def_readonly("drafter", &SpeculativeBeamSpec::drafter);
}

void bind_sampling(py::module_& module) {
  py::class_<Sampling>(module, "Sampling")
      .def(py::init([](double temperature, std::optional<int32_t> top_k,
                       std::optional<double> top_p, uint64_t seed) {
             Sampling sampling{temperature, top_k, top_p, seed};
             sampling.check();
             return sampling;
           }),
           py::kw_only(), py::arg("temperature") = 1.0, py::arg("top_k") = py::none(),
           py::arg("top_p") = py::none(), py::arg("seed") = 0);
  py::class_<Sampler>(module, "Sampler")
      .def(py::init<const Sampling&, uint64_t, uint32_t, bool>(), py::kw_only(),
           py::arg("sampling"), py::arg("query_key"), py::arg("sample"), py::arg("rejects") = false)
      .def_property_readonly("rejects", &Sampler::rejects)
      .def(
          "token",
          [](const Sampler& self, const py::array_t<float, py::array::c_style>& log_probs,
             uint32_t position) {
            if (log_probs.ndim() != 1 || log_probs.size() == 0)
              throw std::invalid_argument("log_probs: expected [vocab]");
            return self.at(log_probs.data(), static_cast<int32_t>(log_probs.size()), position)
                .token_id;
          },
          py::arg("log_probs"), py::arg("position"));
  module.def("philox", [](std::array<uint32_t, 4> counter, uint64_t key) {
    const PhiloxBits bits = philox({{counter[0], counter[1], counter[2], counter[3]}}, key);
    return std::array<uint32_t, 4>{bits.word[0], bits.word[1], bits.word[2], bits.word[3]};
  });
  module.def("fixed_log", &fixed_log);
  module.def("fixed_exp", &fixed_exp);
}

void bind_specs(py::module_& module) {
  py::class_<SearchSpec, std::shared_ptr<SearchSpec>>(module, "SearchSpec");
  py::class_<Relaxed>(module, "Relaxed")
      .def(py::init([](int32_t beta, double tau, bool judged_by_drafter) {
             return Relaxed{beta, tau, judged_by_drafter};
           }),
           py::kw_only(), py::arg("beta"), py::arg("tau"), py::arg("judged_by_drafter"));
  py::class_<GreedySpec, SearchSpec, std::shared_ptr<GreedySpec>>(module, "GreedySpec")
      .def(py::init([](int32_t max_length, const DrafterOptions& drafter,
                       const std::optional<Relaxed>& relaxed) {
             GreedySpec spec;
             spec.max_length = max_length;
             spec.drafter = drafter;
             spec.relaxed = relaxed;
             return checked(spec);
           }),
           py::kw_only(), py::arg("max_length"), py::arg("drafter"),
           py::arg("relaxed") = py::none())
      .def_property_readonly("is_relaxed",
                             [](const GreedySpec& spec) { return spec.relaxed.has_value(); })
      .def_readonly("max_length", &GreedySpec::max_length)
      .def_readonly("drafter", &GreedySpec::drafter);
  bind_lists(module);
  py::class_<SampleSpec, SearchSpec, std::shared_ptr<SampleSpec>>(module, "SampleSpec")
      .def(py::init([](int32_t samples, int32_t max_length, const Sampling& sampling,
                       const DrafterOptions& drafter, bool rejection) {
             SampleSpec spec;
             spec.samples = samples;
             spec.max_length = max_length;
             spec.sampling = sampling;
             spec.rejection = rejection;
             spec.drafter = drafter;
             return checked(spec);
           }),
           py::kw_only(), py::arg("samples"), py::arg("max_length"), py::arg("sampling"),
           py::arg("drafter"), py::arg("rejection") = false);
  py::class_<ForcedSpec, SearchSpec, std::shared_ptr<ForcedSpec>>(module, "ForcedSpec")
      .def(py::init([] { return checked(ForcedSpec{}); }));
}

// Arguments of a step of the decoder.
template <typename Searches>
void bind_step(py::class_<Searches>& bound) {
  bound
      .def_property_readonly("block_count",
                             [](const Searches& self) { return self.tree().block_count(); })
      .def_property_readonly("nodes",
                             [](const Searches& self) { return staged_nodes(self.tree()); })
      .def_property_readonly("path_slots",
                             [](const Searches& self) { return path_slots(self.tree()); });
}

// What models that draft for others share.
template <typename Paths>
void bind_paths(py::class_<Paths>& bound) {
  bound.def("start", &Paths::start, py::arg("row"), py::arg("source_ids"))
      .def("release", &Paths::release, py::arg("row"))
      .def("ask", &Paths::ask, py::arg("paths"), py::arg("counts"))
      .def("advance", &advance<Paths>, py::arg("log_probs"))
      .def_property_readonly("trees", &Paths::trees);
  bind_step(bound);
}

void bind_continuations(py::module_& module) {
  py::class_<Continuations> bound(module, "Continuations");
  bound
      .def(py::init([](int32_t row_count, std::shared_ptr<GuessModel> model,
                       const DrafterOptions& drafts, int32_t width) {
             return std::make_unique<Continuations>(row_count, std::move(model), drafts, width);
           }),
           py::kw_only(), py::arg("row_count"), py::arg("guess_model").none(false),
           py::arg("drafts"), py::arg("width") = 1)
      .def("paths", &Continuations::paths)
      .def("plan", &Continuations::plan, py::arg("proposed") = std::vector<DraftTree>());
  bind_paths(bound);
}

// A tree for each of log_probs [row, place, vocab].
std::vector<DraftTree> place_trees(const GuessModel& model, const LogProbs& log_probs,
                                   int32_t node_budget, float min_log_prob) {
  const int32_t vocab_size = model.roles().vocab_size();
  if (log_probs.ndim() != 3 || log_probs.shape(2) != vocab_size)
    throw std::invalid_argument("log_probs: expected [row, place, " + std::to_string(vocab_size) +
                                "]");
  PlaceTrees drafter({node_budget, min_log_prob});
  std::vector<DraftTree> trees(static_cast<size_t>(log_probs.shape(0)));
  std::vector<const float*> places(static_cast<size_t>(log_probs.shape(1)));
  const float* row = log_probs.data();
  for (DraftTree& tree : trees) {
    for (const float*& place : places) {
      place = row;
      row += vocab_size;
    }
    drafter.draft(places, vocab_size, model.roles().special(), tree);
  }
  return trees;
}

void bind_masked(py::module_& module) {
  module.def("place_trees", &place_trees, py::kw_only(), py::arg("guess_model"),
             py::arg("log_probs"), py::arg("node_budget"), py::arg("min_log_prob"));
  py::class_<MaskedPlaces> bound(module, "MaskedPlaces");
  bound
      .def(py::init([](int32_t row_count, std::shared_ptr<GuessModel> model, int32_t node_budget,
                       float min_log_prob) {
             const PlaceTreeOptions options{node_budget, min_log_prob};
             return std::make_unique<MaskedPlaces>(row_count, std::move(model), options);
           }),
           py::kw_only(), py::arg("row_count"), py::arg("guess_model").none(false),
           py::arg("node_budget"), py::arg("min_log_prob"))
      .def("plan", &MaskedPlaces::plan);
  bind_paths(bound);
}

void bind_batch(py::module_& module) {
  py::class_<Path>(module, "Path")
      .def(py::init([](int32_t row, std::vector<int32_t> token_ids, double log_prob,
                       std::optional<Sampler> sampler) {
             return Path{row, std::move(token_ids), log_prob, TokenTree::kNone, sampler};
           }),
           py::arg("row"), py::arg("token_ids"), py::arg("log_prob"),
           py::arg("sampler") = py::none())
      .def_readonly("row", &Path::row)
      .def_readonly("token_ids", &Path::token_ids)
      .def_readonly("log_prob", &Path::log_prob)
      .def_readonly("slot", &Path::slot)
      .def_readonly("sampler", &Path::sampler);
  py::class_<Step>(module, "Step")
      .def(py::init([](uintptr_t function, py::array_t<uint8_t> prepared, LogProbs log_probs,
                       int32_t block_count, py::object tensors) {
             return Step{reinterpret_cast<StepFunction>(function), std::move(prepared),
                         std::move(log_probs), block_count, std::move(tensors)};
           }),
           py::kw_only(), py::arg("function"), py::arg("prepared").noconvert(),
           py::arg("log_probs").noconvert(), py::arg("block_count"), py::arg("tensors"));
  py::class_<Ran>(module, "Ran")
      .def_readonly("done", &Ran::done)
      .def_readonly("rounds", &Ran::rounds)
      .def_readonly("lacks_room", &Ran::lacks_room)
      .def_readonly("planning", &Ran::planning)
      .def_readonly("stepping", &Ran::stepping);
  py::class_<Batch> bound(module, "Batch");
  bound
      .def(py::init([](int32_t row_count, std::shared_ptr<GuessModel> model) {
             return std::make_unique<Batch>(row_count, std::move(model));
           }),
           py::arg("row_count"), py::arg("guess_model").none(false))
      .def(
          "start",
          [](Batch& batch, int32_t row, std::shared_ptr<SearchSpec> spec,
             const std::vector<int32_t>& ids,
             uint64_t query_key) { batch.start(row, std::move(spec), ids, query_key); },
          py::arg("row"), py::arg("spec").none(false), py::arg("source_ids"),
          py::arg("query_key") = 0)
      .def("cancel", &Batch::cancel, py::arg("row"))
      .def("paths", &Batch::paths)
      .def("plan", &Batch::plan, py::arg("proposed") = std::vector<DraftTree>())
      .def("advance", &advance<Batch>, py::arg("log_probs"))
      .def("run", &run, py::arg("step"), py::arg("until_done") = false)
      .def(
          "check",
          [](const Batch& batch, const DraftTree& tree) { admitted(tree, batch.model().roles()); },
          py::arg("tree"))
      .def_property_readonly("live_count", &Batch::live_count);
  bind_step(bound);
}

}  // namespace

void bind_search(py::module_& module) {
  bind_decoded(module);
  bind_sampling(module);
  bind_specs(module);
  bind_batch(module);
  bind_continuations(module);
  bind_masked(module);
}

}  // namespace molspec
