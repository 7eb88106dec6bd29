// Errors for invalid arguments, which name the argument, its value and what was expected.

#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace molspec {

template <typename... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

// Throws the parts as one text.
template <typename... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void throw_invalid(const Parts&... parts) {
  throw std::invalid_argument(joined(parts...));
}

// Throws, for example, "max_length is 0: expected at least 1" unless `holds`.
template <typename Name, typename Value, typename... Expected>
void require(bool holds, const Name& name, const Value& value, const Expected&... expected) {
  if (!holds) throw_invalid(name, " is ", value, ": expected ", expected...);
}

}  // namespace molspec
