// What the drafters must know about a vocabulary: the part that each token plays in SMILES.

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

  // tokens[id] is the text of id. Throws std::invalid_argument where a special id is outside.
  TokenRoles(const std::vector<std::string>& tokens, const SpecialIds& special);

  const std::vector<std::string>& tokens() const { return tokens_; }
  int vocab_size() const { return static_cast<int>(roles_.size()); }
  const SpecialIds& special() const { return special_; }
  TokenKind kind(int32_t token) const { return role(token).kind; }
  // 0 to 99, or kNotRing.
  int ring_number(int32_t token) const { return role(token).ring_number; }
  // Of an atom; 0 for an element that is not known.
  int atomic_number(int32_t token) const { return role(token).atomic_number; }
  // Of a bracket atom, as written; 0 for all else.
  int hydrogen_count(int32_t token) const { return role(token).hydrogen_count; }
  bool is_aromatic(int32_t token) const { return role(token).aromatic; }
  // Of a bond token; 1 for all else.
  int bond_order(int32_t token) const { return role(token).bond_order; }

  // The token that writes a ring number, where the vocabulary has it.
  std::optional<int32_t> ring_token(int number) const;
  std::optional<int32_t> find(const std::string& text) const;
  // Throws std::invalid_argument unless 0 <= token < vocab_size().
  void check_token(int32_t token) const;
  void check_tokens(const int32_t* tokens, int count) const;

 private:
  struct Role {
    TokenKind kind = TokenKind::kOther;
    int8_t ring_number = kNotRing;
    uint8_t atomic_number = 0;
    uint8_t hydrogen_count = 0;
    uint8_t bond_order = 1;
    bool aromatic = false;
  };
  static Role parse(const std::string& text);
  const Role& role(int32_t token) const { return roles_[static_cast<size_t>(token)]; }

  SpecialIds special_;
  std::vector<std::string> tokens_;
  std::vector<Role> roles_;
};

}  // namespace molspec
