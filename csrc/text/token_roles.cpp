#include "text/token_roles.h"

#include <algorithm>
#include <stdexcept>

namespace molspec {
namespace {

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

int parse_ring_number(const std::string& text) {
  if (text.size() == 1 && is_digit(text[0])) return text[0] - '0';
  if (text.size() == 3 && text[0] == '%' && is_digit(text[1]) && is_digit(text[2])) {
    return (text[1] - '0') * 10 + (text[2] - '0');
  }
  return TokenRoles::kNotRing;
}

}  // namespace

TokenRoles::TokenRoles(const std::vector<std::string>& tokens, const SpecialIds& special)
    : special_(special), tokens_(tokens), ring_tokens_(kRingNumbers, -1) {
  for (const std::string& text : tokens_) {
    const int number = parse_ring_number(text);
    const auto token = static_cast<int32_t>(ring_numbers_.size());
    ring_numbers_.push_back(static_cast<int8_t>(number));
    if (number != kNotRing && ring_tokens_[static_cast<size_t>(number)] < 0) {
      ring_tokens_[static_cast<size_t>(number)] = token;
    }
  }
  for (const int32_t id : {special.pad, special.bos, special.eos, special.unk}) check_token(id);
}

std::optional<int32_t> TokenRoles::ring_token(int number) const {
  const int32_t token = ring_tokens_[static_cast<size_t>(number)];
  if (token < 0) return std::nullopt;
  return token;
}

std::optional<int32_t> TokenRoles::find(const std::string& text) const {
  const auto found = std::find(tokens_.begin(), tokens_.end(), text);
  if (found == tokens_.end()) return std::nullopt;
  return static_cast<int32_t>(found - tokens_.begin());
}

void TokenRoles::check_token(int32_t token) const {
  if (token < 0 || token >= vocab_size()) {
    throw std::invalid_argument("token id is " + std::to_string(token) + ": expected 0 to " +
                                std::to_string(vocab_size() - 1));
  }
}

}  // namespace molspec
