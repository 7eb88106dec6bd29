// The role of each token of a vocabulary in SMILES, for the drafters.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/symbol_table.h"

namespace molspec {

class TokenRoles {
 public:
  static constexpr int kNotRing = SymbolTable::kNotRing;

  struct Role {
    TokenKind kind = TokenKind::kOther;
    int8_t ring_number = kNotRing;  // 0 to 99, or kNotRing
    uint8_t atomic_number = 0;      // of an atom; 0 for an unknown element
    uint8_t hydrogen_count = 0;     // of a bracket atom, as written; 0 for all else
    uint8_t bond_order = 1;         // of a bond token; 1 for all else
    bool aromatic = false;
  };

  // tokens[id] is the text of id. Throws std::invalid_argument if a special id is out of range.
  TokenRoles(const std::vector<std::string>& tokens, const SpecialIds& special);

  int vocab_size() const { return static_cast<int>(roles_.size()); }
  const SpecialIds& special() const { return special_; }
  const Role& role(int32_t token) const { return roles_[token]; }
  TokenKind kind(int32_t token) const { return role(token).kind; }

  // The tokens as ring symbols; valid as long as the roles are.
  SymbolTable symbols() const {
    return {kinds_.data(), ring_numbers_.data(), ring_tokens_.data(), vocab_size(), special_};
  }
  std::optional<int32_t> find(const std::string& text) const;
  // Throws std::invalid_argument unless 0 <= token < vocab_size().
  void check_token(int32_t token) const;
  void check_tokens(const std::vector<int32_t>& tokens) const;

 private:
  static Role parse(const std::string& text);

  SpecialIds special_;
  std::vector<std::string> tokens_;
  std::vector<Role> roles_;
  // Of SymbolTable.
  std::vector<TokenKind> kinds_;
  std::vector<int8_t> ring_numbers_;
  std::vector<int32_t> ring_tokens_;
};

}  // namespace molspec
