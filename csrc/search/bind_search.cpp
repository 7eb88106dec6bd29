// Binds the searches.

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bindings.h"
#include "search/beam.h"
#include "search/greedy.h"
#include "search/speculative_beam.h"

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

template <typename Search>
std::vector<Decoded> advance(Search& search, const LogProbs& log_probs) {
  const auto staged = static_cast<py::ssize_t>(search.tree().staged().size());
  if (staged == 0 && search.live_count() > 0)
    throw std::invalid_argument("nothing is staged: expected plan() after start() and advance()");
  const int32_t vocab_size = search.roles().vocab_size();
  if (log_probs.ndim() != 2 || log_probs.shape(0) < staged || log_probs.shape(1) != vocab_size)
    throw std::invalid_argument("log_probs: expected [at least " + std::to_string(staged) + ", " +
                                std::to_string(vocab_size) + "]");
  std::vector<Decoded> done;
  search.advance(log_probs.data(), vocab_size, done);
  return done;
}

// What every search offers the decode loop.
template <typename Search>
void bind_loop(py::class_<Search>& search) {
  search.def("start", &Search::start, py::arg("query"), py::arg("source_ids"))
      .def("plan", &Search::plan)
      .def("advance", &advance<Search>, py::arg("log_probs"))
      .def_property_readonly("live_count", &Search::live_count)
      .def_property_readonly("block_count",
                             [](const Search& self) { return self.tree().block_count(); })
      .def_property_readonly("nodes", [](const Search& self) { return staged_nodes(self.tree()); })
      .def_property_readonly("path_slots",
                             [](const Search& self) { return path_slots(self.tree()); });
}

void bind_decoded(py::module_& module) {
  module.attr("NO_NUMBERS") = kNoNumbers;
  py::class_<Hypothesis>(module, "Hypothesis")
      .def(py::init([](std::vector<int32_t> token_ids, double log_prob, bool finished) {
             return Hypothesis{std::move(token_ids), log_prob, finished};
           }),
           py::kw_only(), py::arg("token_ids"), py::arg("log_prob"), py::arg("finished"))
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

}  // namespace

void bind_search(py::module_& module) {
  bind_decoded(module);
  py::class_<GreedySearch> greedy(module, "GreedySearch");
  greedy
      .def(py::init<std::shared_ptr<const DrafterFactory>, int32_t, int32_t>(),
           py::arg("drafters").none(false), py::arg("query_count"), py::arg("max_length"))
      .def_property_readonly("drafters",
                             [](const GreedySearch& search) {
                               return std::const_pointer_cast<DrafterFactory>(search.drafters());
                             })
      .def_property_readonly("max_length", &GreedySearch::max_length);
  bind_loop(greedy);

  py::class_<ListOptions>(module, "ListOptions")
      .def_readonly("beam_size", &ListOptions::beam_size)
      .def_readonly("n_best", &ListOptions::n_best)
      .def_readonly("max_length", &ListOptions::max_length)
      .def(
          "length_norm",
          [](const ListOptions& options, int32_t length) {
            return length_norm(length, options.length_penalty);
          },
          py::arg("length"));
  py::class_<BeamOptions, ListOptions>(module, "BeamOptions")
      .def(py::init([](int32_t beam_size, int32_t n_best, int32_t max_length, double length_penalty,
                       bool finished_apart, int32_t lookahead_steps, int32_t node_budget,
                       float min_confidence) {
             const BeamOptions options{{beam_size, n_best, max_length, length_penalty},
                                       finished_apart,
                                       lookahead_steps,
                                       node_budget,
                                       min_confidence};
             check(options);
             return options;
           }),
           py::kw_only(), py::arg("beam_size"), py::arg("n_best"), py::arg("max_length"),
           py::arg("length_penalty"), py::arg("finished_apart"), py::arg("lookahead_steps"),
           py::arg("node_budget"), py::arg("min_confidence"))
      .def_readonly("finished_apart", &BeamOptions::finished_apart)
      .def_readonly("lookahead_steps", &BeamOptions::lookahead_steps)
      .def_readonly("node_budget", &BeamOptions::node_budget)
      .def_readonly("min_confidence", &BeamOptions::min_confidence)
      .def_property_readonly("drafts", [](const BeamOptions& options) {
        return options.lookahead_steps > 0 && options.node_budget > 0;
      });
  py::class_<BeamSearch> beam(module, "BeamSearch");
  beam.def(py::init<const BeamOptions&, std::shared_ptr<const GuessModel>, int32_t>(),
           py::arg("options"), py::arg("guess_model").none(false), py::arg("query_count"))
      .def_property_readonly("options", &BeamSearch::options)
      .def_property_readonly("guess_model", [](const BeamSearch& search) {
        return std::const_pointer_cast<GuessModel>(search.guess_model());
      });
  bind_loop(beam);

  py::class_<SpeculativeBeamOptions, ListOptions>(module, "SpeculativeBeamOptions")
      .def(py::init([](int32_t beam_size, int32_t n_best, int32_t max_length, double length_penalty,
                       float nucleus) {
             return SpeculativeBeamOptions{{beam_size, n_best, max_length, length_penalty},
                                           nucleus};
           }),
           py::kw_only(), py::arg("beam_size"), py::arg("n_best"), py::arg("max_length"),
           py::arg("length_penalty"), py::arg("nucleus"))
      .def_readonly("nucleus", &SpeculativeBeamOptions::nucleus);
  py::class_<SpeculativeBeamSearch> speculative(module, "SpeculativeBeamSearch");
  speculative
      .def(py::init<const SpeculativeBeamOptions&, std::optional<WindowOptions>,
                    std::shared_ptr<const GuessModel>, int32_t>(),
           py::arg("options"), py::arg("windows"), py::arg("guess_model").none(false),
           py::arg("query_count"))
      .def_property_readonly("options", &SpeculativeBeamSearch::options)
      .def_property_readonly("windows", &SpeculativeBeamSearch::windows)
      .def_property_readonly("guess_model", [](const SpeculativeBeamSearch& search) {
        return std::const_pointer_cast<GuessModel>(search.guess_model());
      });
  bind_loop(speculative);
}

}  // namespace molspec
