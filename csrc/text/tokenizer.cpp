#include "text/tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace molspec::text {
namespace {

constexpr std::string_view one_character_tokens = "BCNOPSFIbcnops0123456789().=#-+\\/:~@?>*$";

bool is_digit(char character) { return character >= '0' && character <= '9'; }

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::size_t bracket_length(std::string_view text) {
  const std::size_t close = text.find(']', 1);
  return close == std::string_view::npos || close == 1 ? 0 : close + 1;
}

// Bytes of the token at the start of `text`; 0 if there is none.
std::size_t token_length(std::string_view text) {
  const char second = text.size() > 1 ? text[1] : '\0';
  switch (text[0]) {
    case '[':
      return bracket_length(text);
    case '%':
      return text.size() > 2 && is_digit(second) && is_digit(text[2]) ? 3 : 0;
    case 'B':
      return second == 'r' ? 2 : 1;
    case 'C':
      return second == 'l' ? 2 : 1;
    default:
      return one_character_tokens.find(text[0]) == std::string_view::npos ? 0 : 1;
  }
}

// Bytes of the character at the start of `text`.
std::size_t character_length(std::string_view text) {
  std::size_t length = 1;
  while (length < text.size() && continues_character(text[length])) ++length;
  return length;
}

std::uint32_t code_point(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character[0]);
  std::uint32_t point = static_cast<unsigned char>(character[0]) & (0x7F >> character.size());
  for (char byte : character.substr(1))
    point = point << 6 | (static_cast<unsigned char>(byte) & 0x3F);
  return point;
}

// `text` in quotes, safe to show anywhere: characters that are not printable ASCII become code
// points, and long text is cut.
std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string shown = "'";
  while (!text.empty() && shown.size() <= longest) {
    const std::string_view character = text.substr(0, character_length(text));
    const std::uint32_t point = code_point(character);
    if (point >= 0x20 && point < 0x7F) {
      shown += character;
    } else {
      char buffer[16];
      std::snprintf(buffer, sizeof buffer, "<U+%04X>", static_cast<unsigned>(point));
      shown += buffer;
    }
    text.remove_prefix(character.size());
  }
  return shown + (text.empty() ? "'" : "...'");
}

std::string place(std::string_view smiles, std::size_t offset) {
  const auto before = smiles.substr(0, offset);
  const auto characters = before.size() - static_cast<std::size_t>(std::count_if(
                                              before.begin(), before.end(), continues_character));
  return " at position " + std::to_string(characters + 1);
}

[[noreturn]] void throw_not_smiles(std::string_view smiles, std::size_t offset) {
  const std::string_view rest = smiles.substr(offset);
  const std::string_view character = rest.substr(0, character_length(rest));
  std::string message = "not SMILES: " + quoted(character) + place(smiles, offset);
  if (character == "[") message += " opens a bracket that is empty or never closed";
  if (character == "%") message += " is not followed by two digits";
  throw TokenizationError(message);
}

constexpr std::size_t most_unknown_named = 5;

[[noreturn]] void throw_unknown(const std::vector<std::string_view>& tokens) {
  std::string message = "not in the model's vocabulary: " + quoted(tokens[0]);
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    message += i == most_unknown_named ? ", ..." : ", " + quoted(tokens[i]);
  }
  throw TokenizationError(message);
}

}  // namespace

std::vector<std::string_view> tokenize(std::string_view smiles) {
  std::vector<std::string_view> tokens;
  tokens.reserve(smiles.size());
  for (std::size_t offset = 0; offset < smiles.size(); offset += tokens.back().size()) {
    const std::size_t length = token_length(smiles.substr(offset));
    if (length == 0) throw_not_smiles(smiles, offset);
    tokens.push_back(smiles.substr(offset, length));
  }
  return tokens;
}

TokenIds::TokenIds(std::vector<std::string> tokens, const std::vector<std::int32_t>& special_ids)
    : tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (const std::string& token : tokens_) {
    if (!ids_.emplace(token, static_cast<std::int32_t>(ids_.size())).second) {
      throw std::invalid_argument("token " + quoted(token) + " occurs twice");
    }
  }
  for (std::int32_t id : special_ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= tokens_.size()) {
      throw std::invalid_argument("special id " + std::to_string(id) + ": expected 0 to " +
                                  std::to_string(static_cast<long>(tokens_.size()) - 1));
    }
    ids_.erase(tokens_[static_cast<std::size_t>(id)]);
  }
}

std::vector<std::int32_t> TokenIds::encode(std::string_view smiles) const {
  const auto tokens = tokenize(smiles);
  std::vector<std::int32_t> ids;
  std::vector<std::string_view> unknown;
  ids.reserve(tokens.size());
  for (std::string_view token : tokens) {
    if (const auto found = ids_.find(token); found != ids_.end()) {
      ids.push_back(found->second);
    } else if (std::find(unknown.begin(), unknown.end(), token) == unknown.end()) {
      unknown.push_back(token);
      if (unknown.size() > most_unknown_named) break;
    }
  }
  if (!unknown.empty()) throw_unknown(unknown);
  return ids;
}

}  // namespace molspec::text
