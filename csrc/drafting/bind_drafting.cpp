#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <utility>

#include "bindings.h"
#include "drafting/drafter.h"
#include "drafting/guess_rows.h"
#include "drafting/guess_trainer.h"

namespace py = pybind11;

namespace molspec {
namespace {

using Ids = std::vector<int32_t>;
using Probabilities = py::array_t<double, py::array::c_style>;

std::shared_ptr<GuessModel> make_guess_model(const std::vector<std::string>& tokens, int32_t pad,
                                             int32_t bos, int32_t eos, int32_t unk,
                                             const std::optional<py::bytes>& ngram) {
  TokenRoles roles(tokens, {pad, bos, eos, unk});
  if (!ngram) return std::make_shared<GuessModel>(std::move(roles), false);
  auto model = std::make_shared<const NgramModel>(std::string(*ngram));
  return std::make_shared<GuessModel>(std::move(roles), std::move(model));
}

void bind_ngram(py::module_& module) {
  py::class_<NgramModel>(module, "NgramModel")
      .def(py::init([](const py::bytes& bytes) { return NgramModel(std::string(bytes)); }))
      .def("lookup", [](const NgramModel& model, const Ids& context, float floor) {
        NgramLookup lookup;
        const int count =
            lookup.find(model.table(), context.data(), static_cast<int>(context.size()), floor);
        std::vector<std::pair<int32_t, float>> found;
        for (int i = 0; i < count; ++i) {
          const auto& [symbol, probability] = lookup.found[i];
          found.emplace_back(symbol, probability);
        }
        return found;
      });
  py::class_<NgramBuilder>(module, "NgramBuilder")
      .def(py::init<int, int>(), py::kw_only(), py::arg("order"), py::arg("alphabet_size"))
      .def("add", &NgramBuilder::add)
      .def(
          "build",
          [](const NgramBuilder& builder, double discount, double min_gain) {
            return py::bytes(builder.build({discount, min_gain, false}));
          },
          py::kw_only(), py::arg("discount"), py::arg("min_gain"));
}

// The symbols of a copy text and the source positions of their atoms.
auto copy_text(const GuessModel& model, const Ids& source_ids) {
  CopyText text;
  CopyTextWriter(model.roles()).write(source_ids, true, text);
  return std::make_pair(text.symbols, text.atoms);
}

void bind_options(py::module_& module) {
  bind_value(py::class_<NoDraftOptions>(module, "NoDraftOptions").def(py::init<>()));
  bind_value(py::class_<ExternalOptions>(module, "ExternalOptions").def(py::init<>()));
  bind_fields(py::class_<WindowOptions>(module, "WindowOptions"),
              REQUIRED(WindowOptions, draft_length), REQUIRED(WindowOptions, draft_count),
              REQUIRED(WindowOptions, even), REQUIRED(WindowOptions, dilution),
              REQUIRED(WindowOptions, smart));
  bind_fields(py::class_<TreeOptions>(module, "TreeOptions"), REQUIRED(TreeOptions, node_budget),
              REQUIRED(TreeOptions, max_depth), REQUIRED(TreeOptions, min_probability),
              OPTIONAL(TreeOptions, whole_paths))
      .def_property_readonly("min_log_prob", &TreeOptions::min_log_prob);
  module.attr("DrafterOptions") = union_of(std::type_identity<DrafterOptions>());
}

void bind_tree(py::module_& module) {
  py::class_<DraftTree>(module, "DraftTree")
      .def(py::init([](Ids token_ids, Ids parents, std::vector<float> log_probs,
                       const std::optional<Probabilities>& drawn_from) {
             DraftTree tree{std::move(token_ids), std::move(parents), std::move(log_probs), {}};
             if (drawn_from)
               tree.drawn_from.assign(drawn_from->data(), drawn_from->data() + drawn_from->size());
             return tree;
           }),
           py::arg("token_ids") = Ids(), py::arg("parents") = Ids(),
           py::arg("log_probs") = std::vector<float>(), py::arg("drawn_from") = py::none())
      .def_readonly("token_ids", &DraftTree::token_ids)
      .def_readonly("parents", &DraftTree::parents)
      .def_readonly("log_probs", &DraftTree::log_probs)
      .def_property_readonly("drawn_from",
                             [](const DraftTree& tree) -> std::optional<Probabilities> {
                               if (tree.size() == 0 || tree.drawn_from.empty()) return std::nullopt;
                               const auto rows = static_cast<py::ssize_t>(tree.size());
                               const auto count = static_cast<py::ssize_t>(tree.drawn_from.size());
                               return Probabilities({rows, count / rows}, tree.drawn_from.data());
                             })
      .def("child", &DraftTree::child, py::arg("node"), py::arg("token"))
      .def("__len__", &DraftTree::size)
      .def("__repr__", [](const DraftTree& tree) {
        return py::str("DraftTree(token_ids={}, parents={}, log_probs={})")
            .format(tree.token_ids, tree.parents, tree.log_probs);
      });
  py::class_<AdmittedTree, DraftTree>(module, "AdmittedTree");  // made by GuessModel.admitted
}

}  // namespace

void bind_drafting(py::module_& module) {
  bind_options(module);
  bind_tree(module);
  bind_ngram(module);
  py::class_<GuessModel, std::shared_ptr<GuessModel>>(module, "GuessModel")
      .def(py::init(&make_guess_model), py::kw_only(), py::arg("tokens"), py::arg("pad"),
           py::arg("bos"), py::arg("eos"), py::arg("unk"), py::arg("ngram"))
      .def(
          "admitted",
          [](const GuessModel& model, const DraftTree& tree) {
            return AdmittedTree(tree, model.roles());
          },
          py::arg("tree"))
      .def("copy_text", &copy_text)
      .def("tables_row", [](const GuessModel& model) { return py::bytes(guess_tables_row(model)); })
      .def("text_row",
           [](const GuessModel& model, const Ids& source_ids) {
             return py::bytes(guess_text_row(model, source_ids));
           })
      .def("row_limits", &guess_row_limits, py::arg("longest"))
      .def_property_readonly("ngram_alphabet",
                             [](const GuessModel& model) {
                               return model.ngram() == nullptr ? 0 : model.ngram()->alphabet_size();
                             })
      .def_property_readonly("vocab_size",
                             [](const GuessModel& model) { return model.roles().vocab_size(); })
      .def_property_readonly("bos",
                             [](const GuessModel& model) { return model.roles().special().bos; })
      .def_property_readonly("eos",
                             [](const GuessModel& model) { return model.roles().special().eos; });
  py::class_<GuessTrainer>(module, "GuessTrainer")
      .def(py::init([](const GuessModel& model, bool rewrites) {
             return std::make_unique<GuessTrainer>(model.roles(), rewrites);
           }),
           py::arg("model"), py::kw_only(), py::arg("rewrites"))
      .def("add", &GuessTrainer::add)
      .def(
          "build",
          [](const GuessTrainer& trainer, double discount, double min_gain) {
            return py::bytes(trainer.build(discount, min_gain));
          },
          py::kw_only(), py::arg("discount"), py::arg("min_gain"));
  py::class_<Drafter>(module, "NativeDrafter")
      .def(py::init([](const DrafterOptions& options, std::shared_ptr<GuessModel> model) {
             if (std::holds_alternative<ExternalOptions>(options))
               throw_invalid("options are ExternalOptions: expected a native drafter's");
             return make_drafter(options, std::move(model));
           }),
           py::arg("options"), py::arg("model").none(false))
      .def("start", &Drafter::start, py::arg("source_ids"))
      .def(
          "propose",
          [](Drafter& drafter, const Ids& token_ids) {
            DraftTree tree;
            drafter.propose(token_ids, tree);
            return tree;
          },
          py::arg("token_ids"));
}

}  // namespace molspec
