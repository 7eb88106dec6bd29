// What the drafters must know about a vocabulary: the special ids and the ring-closure digits.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace molspec {

struct SpecialIds {
  int32_t pad;
  int32_t bos;
  int32_t eos;
  int32_t unk;
};

class TokenRoles {
 public:
  static constexpr int kNotRing = -1;
  static constexpr int kRingNumbers = 100;  // SMILES writes 0 to 9 and %10 to %99

  // tokens[id] is the text of id. Throws std::invalid_argument where a special id is outside.
  TokenRoles(const std::vector<std::string>& tokens, const SpecialIds& special);

  int vocab_size() const { return static_cast<int>(ring_numbers_.size()); }
  const SpecialIds& special() const { return special_; }
  // PAD, BOS, EOS or UNK: never copied, never drafted.
  bool is_special(int32_t token) const {
    return token == special_.pad || token == special_.bos || token == special_.eos ||
           token == special_.unk;
  }
  // 0 to 99, or kNotRing.
  int ring_number(int32_t token) const { return ring_numbers_[static_cast<size_t>(token)]; }
  // The token that writes a ring number, where the vocabulary has it.
  std::optional<int32_t> ring_token(int number) const;
  std::optional<int32_t> find(const std::string& text) const;
  // Throws std::invalid_argument unless 0 <= token < vocab_size().
  void check_token(int32_t token) const;

 private:
  SpecialIds special_;
  std::vector<std::string> tokens_;
  std::vector<int8_t> ring_numbers_;
  std::vector<int32_t> ring_tokens_;
};

}  // namespace molspec
