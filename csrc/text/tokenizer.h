// Atomwise SMILES tokens and their ids.
//
// The tokens are those of Schwaller et al. (ACS Cent. Sci. 2019, 5, 1572), who give them as a
// regular expression: a bracket atom with its content, Br, Cl, one-letter atoms, bonds, branches,
// ring closures as one digit or % and two, and the dot.

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace molspec::text {

// The text is not SMILES, or has tokens that a vocabulary lacks; what() names them. Positions count
// characters, from 1.
class TokenizationError : public std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// The tokens of `smiles` (UTF-8) in order, as views into it; joined, they are `smiles`.
// Throws TokenizationError at the first character that begins no token. Linear time.
std::vector<std::string_view> tokenize(std::string_view smiles);

// Ids of tokens: `tokens[i]` has id i.
class TokenIds {
 public:
  // Tokens whose ids are in `special_ids` (PAD, UNK, ...) match no text: a query that spells one of
  // them has an unknown token. Throws std::invalid_argument if a token occurs twice or an id is out
  // of range.
  TokenIds(std::vector<std::string> tokens, const std::vector<std::int32_t>& special_ids);
  TokenIds(const TokenIds&) = delete;
  TokenIds& operator=(const TokenIds&) = delete;

  // The ids of `smiles`, without BOS and EOS. Throws TokenizationError.
  std::vector<std::int32_t> encode(std::string_view smiles) const;

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // views into tokens_
};

}  // namespace molspec::text
