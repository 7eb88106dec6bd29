#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

#include "text/bindings.h"
#include "text/drafter.h"
#include "text/ngram_builder.h"

namespace py = pybind11;

namespace molspec {
namespace {

using Tree = std::pair<std::vector<int32_t>, std::vector<int32_t>>;
using Ids = std::vector<int32_t>;

std::shared_ptr<GuessModel> make_guess_model(const std::vector<std::string>& tokens, int32_t pad,
                                             int32_t bos, int32_t eos, int32_t unk,
                                             const std::optional<py::bytes>& ngram) {
  std::shared_ptr<const NgramModel> model;
  if (ngram) model = std::make_shared<const NgramModel>(std::string(*ngram));
  return std::make_shared<GuessModel>(TokenRoles(tokens, {pad, bos, eos, unk}), std::move(model));
}

// The n-gram model of targets (token ids without BOS and EOS), in ring symbols.
py::bytes build_ngram(const std::vector<std::string>& tokens, const SpecialIds& special,
                      const std::vector<Ids>& targets, int order, double min_gain) {
  const TokenRoles roles(tokens, special);
  const RingSymbols symbols(roles);
  NgramBuilder builder(order, symbols.alphabet_size());
  Ids sequence;
  for (const Ids& target : targets) {
    OpenRings rings;
    sequence.assign(1, special.bos);
    for (const int32_t token : target) {
      roles.check_token(token);
      sequence.push_back(symbols.symbol(token, rings));
      symbols.advance(token, rings);
    }
    sequence.push_back(special.eos);
    for (size_t i = 1; i < sequence.size(); ++i) {
      const size_t known = std::min(i, static_cast<size_t>(order) - 1);
      builder.add(&sequence[i - known], static_cast<int>(known), sequence[i]);
    }
  }
  NgramBuildOptions options;
  options.min_gain = min_gain;
  return py::bytes(builder.build(options));
}

void bind_options(py::module_& module) {
  py::class_<NoDraftOptions>(module, "NoDraftOptions").def(py::init<>());
  py::class_<WindowOptions>(module, "WindowOptions")
      .def(py::init([](int draft_length, int draft_count, bool even, bool dilution, bool smart) {
             return WindowOptions{draft_length, draft_count, even, dilution, smart};
           }),
           py::kw_only(), py::arg("draft_length"), py::arg("draft_count"), py::arg("even"),
           py::arg("dilution"), py::arg("smart"));
  py::class_<TreeOptions>(module, "TreeOptions")
      .def(py::init([](int node_budget, int max_depth, float min_probability) {
             return TreeOptions{node_budget, max_depth, min_probability};
           }),
           py::kw_only(), py::arg("node_budget"), py::arg("max_depth"), py::arg("min_probability"));
}

}  // namespace

void bind_drafting(py::module_& module) {
  bind_options(module);
  py::class_<GuessModel, std::shared_ptr<GuessModel>>(module, "GuessModel")
      .def(py::init(&make_guess_model), py::kw_only(), py::arg("tokens"), py::arg("pad"),
           py::arg("bos"), py::arg("eos"), py::arg("unk"), py::arg("ngram"));
  module.def(
      "build_ngram",
      [](const std::vector<std::string>& tokens, int32_t pad, int32_t bos, int32_t eos, int32_t unk,
         const std::vector<Ids>& targets, int order, double min_gain) {
        return build_ngram(tokens, {pad, bos, eos, unk}, targets, order, min_gain);
      },
      py::kw_only(), py::arg("tokens"), py::arg("pad"), py::arg("bos"), py::arg("eos"),
      py::arg("unk"), py::arg("targets"), py::arg("order"), py::arg("min_gain"));
  py::class_<Drafter>(module, "Drafter")
      .def("start",
           [](Drafter& drafter, const Ids& source_ids) {
             drafter.start(source_ids.data(), static_cast<int>(source_ids.size()));
           })
      .def("propose",
           [](Drafter& drafter) {
             DraftTree tree;
             drafter.propose(tree);
             return py::make_tuple(tree.token_ids, tree.parents, tree.log_probs);
           })
      .def("advance", [](Drafter& drafter, const Ids& token_ids) {
        drafter.advance(token_ids.data(), static_cast<int>(token_ids.size()));
      });
  py::class_<DrafterFactory, std::shared_ptr<DrafterFactory>>(module, "DrafterFactory")
      .def(py::init([](const DrafterOptions& options, std::shared_ptr<GuessModel> model) {
             return std::make_shared<DrafterFactory>(options, std::move(model));
           }),
           py::arg("options"), py::arg("model"))
      .def("start", [](const DrafterFactory& factory, const Ids& source_ids) {
        return factory.start(source_ids.data(), static_cast<int>(source_ids.size()));
      });
}

}  // namespace molspec
