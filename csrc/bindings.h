// What each part of molspec binds into the module `molspec._native`, and structs by tables of their
// fields.

#pragma once

#include <pybind11/pybind11.h>

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace molspec {

void bind_drafting(pybind11::module_& module);
void bind_search(pybind11::module_& module);
void bind_draft_models(pybind11::module_& module);
void bind_rows(pybind11::module_& module);

// A field that Python gives by its name, and one that it may leave as the struct has it.
template <typename Struct, typename Value>
struct Required {
  using Type = Value;
  const char* name;
  Value Struct::* at;

  pybind11::arg argument(const Struct& /*made*/) const { return pybind11::arg(name); }
  bool is_given(const Struct& /*value*/, const Struct& /*made*/) const { return true; }
};
template <typename Struct, typename Value>
struct Optional {
  using Type = Value;
  const char* name;
  Value Struct::* at;

  pybind11::arg_v argument(const Struct& made) const { return pybind11::arg(name) = made.*at; }
  bool is_given(const Struct& value, const Struct& made) const { return value.*at != made.*at; }
};
template <typename Struct, typename Value>
Required(const char*, Value Struct::*) -> Required<Struct, Value>;
template <typename Struct, typename Value>
Optional(const char*, Value Struct::*) -> Optional<Struct, Value>;

template <typename Struct, typename = void>
constexpr bool is_checked = false;
template <typename Struct>
constexpr bool is_checked<Struct, std::void_t<decltype(&Struct::check)>> = true;

// A field by the name that it has in the struct.
#define REQUIRED(Struct, field) \
  ::molspec::Required { #field, &Struct::field }
#define OPTIONAL(Struct, field) \
  ::molspec::Optional { #field, &Struct::field }

// Lets Python compare values, and name the fields that do not have their default.
template <typename Struct, typename... Options, typename... Fields>
void bind_value(pybind11::class_<Struct, Options...> bound, Fields... fields) {
  bound
      .def("__eq__",
           [](const Struct& one, const pybind11::object& other) {
             return pybind11::isinstance<Struct>(other) && one == other.cast<const Struct&>();
           })
      .def("__hash__",
           [fields...](const Struct& value) {
             return pybind11::hash(pybind11::make_tuple(value.*(fields.at)...));
           })
      .def_property_readonly("given", [fields...](const Struct& value) {
        std::vector<std::string> names;
        [[maybe_unused]] const auto add = [&](const auto& field) {
          if (field.is_given(value, Struct{})) names.emplace_back(field.name);
        };
        (add(fields), ...);
        return names;
      });
}

// Lets Python make a struct of its fields, which check() then may refuse, and read them.
template <typename Struct, typename... Options, typename... Fields>
auto bind_fields(pybind11::class_<Struct, Options...> bound, Fields... fields) {
  bound.def(pybind11::init([fields...](typename Fields::Type... values) {
              Struct made{};
              ((made.*(fields.at) = std::move(values)), ...);
              if constexpr (is_checked<Struct>) made.check();
              return made;
            }),
            pybind11::kw_only(), fields.argument(Struct{})...);
  (bound.def_readonly(fields.name, fields.at), ...);
  if constexpr (std::equality_comparable<Struct>) bind_value(bound, fields...);
  return bound;
}

// A variant of bound types, as Python writes it.
template <typename... Types>
pybind11::object union_of(std::type_identity<std::variant<Types...>> /*variant*/) {
  const pybind11::object either = pybind11::module_::import("operator").attr("or_");
  pybind11::object all;
  ((all = all ? either(all, pybind11::type::of<Types>()) : pybind11::type::of<Types>()), ...);
  return all;
}

}  // namespace molspec
