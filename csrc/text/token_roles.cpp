#include "text/token_roles.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/require.h"

namespace molspec {
namespace {

// By atomic number.
constexpr std::array<const char*, 119> kElements = {
    "*",  "H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na", "Mg", "Al", "Si",
    "P",  "S",  "Cl", "Ar", "K",  "Ca", "Sc", "Ti", "V",  "Cr", "Mn", "Fe", "Co", "Ni", "Cu",
    "Zn", "Ga", "Ge", "As", "Se", "Br", "Kr", "Rb", "Sr", "Y",  "Zr", "Nb", "Mo", "Tc", "Ru",
    "Rh", "Pd", "Ag", "Cd", "In", "Sn", "Sb", "Te", "I",  "Xe", "Cs", "Ba", "La", "Ce", "Pr",
    "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu", "Hf", "Ta", "W",
    "Re", "Os", "Ir", "Pt", "Au", "Hg", "Tl", "Pb", "Bi", "Po", "At", "Rn", "Fr", "Ra", "Ac",
    "Th", "Pa", "U",  "Np", "Pu", "Am", "Cm", "Bk", "Cf", "Es", "Fm", "Md", "No", "Lr", "Rf",
    "Db", "Sg", "Bh", "Hs", "Mt", "Ds", "Rg", "Cn", "Nh", "Fl", "Mc", "Lv", "Ts", "Og"};

constexpr char kBonds[] = "-=#$:/\\~";

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_lower(char letter) { return letter >= 'a' && letter <= 'z'; }

int parse_ring_number(const std::string& text) {
  if (text.size() == 1 && is_digit(text[0])) return text[0] - '0';
  if (text.size() == 3 && text[0] == '%' && is_digit(text[1]) && is_digit(text[2])) {
    return (text[1] - '0') * 10 + (text[2] - '0');
  }
  return TokenRoles::kNotRing;
}

// The element at the start of `text`: two letters if such an element exists, else one.
int parse_element(std::string text) {
  if (text.empty()) return 0;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  const bool two_letters = text.size() > 1 && is_lower(text[1]);
  for (size_t length = two_letters ? 2 : 1; length > 0; --length) {
    const auto found = std::find(kElements.begin(), kElements.end(), text.substr(0, length));
    if (found != kElements.end()) return static_cast<int>(found - kElements.begin());
  }
  return 0;
}

}  // namespace

TokenRoles::Role TokenRoles::parse(const std::string& text) {
  Role role;
  role.ring_number = static_cast<int8_t>(parse_ring_number(text));
  const bool bracket = text.size() > 2 && text.front() == '[' && text.back() == ']';
  const bool bond = text.size() == 1 && std::string(kBonds).find(text) != std::string::npos;
  if (role.ring_number != kNotRing) {
    role.kind = TokenKind::kRing;
  } else if (text == "(") {
    role.kind = TokenKind::kOpen;
  } else if (text == ")") {
    role.kind = TokenKind::kClose;
  } else if (text == ".") {
    role.kind = TokenKind::kDot;
  } else if (bond) {
    role.kind = TokenKind::kBond;
    role.bond_order = text == "=" ? 2 : text == "#" ? 3 : text == "$" ? 4 : 1;
  } else if (bracket || text == "*" || parse_element(text) > 0) {
    const size_t element = bracket ? text.find_first_not_of("0123456789", 1) : 0;
    role.kind = TokenKind::kAtom;
    role.atomic_number = static_cast<uint8_t>(parse_element(text.substr(element)));
    role.aromatic = is_lower(text[element]);
    const size_t hydrogen = bracket ? text.find('H', element + 1) : std::string::npos;
    if (hydrogen != std::string::npos) {
      const char next = text[hydrogen + 1];
      role.hydrogen_count = is_digit(next) ? static_cast<uint8_t>(next - '0') : 1;
    }
  }
  return role;
}

TokenRoles::TokenRoles(const std::vector<std::string>& tokens, const SpecialIds& special)
    : special_(special), tokens_(tokens) {
  for (const std::string& text : tokens_) roles_.push_back(parse(text));
  for (const int32_t id : {special.pad, special.bos, special.eos, special.unk}) {
    check_token(id);
    roles_[id] = Role();
  }
  ring_tokens_.assign(SymbolTable::kRingNumbers, SymbolTable::kNoToken);
  for (const Role& role : roles_) {
    if (role.ring_number != kNotRing) {
      int32_t& token = ring_tokens_[role.ring_number];
      if (token == SymbolTable::kNoToken) token = static_cast<int32_t>(kinds_.size());
    }
    kinds_.push_back(role.kind);
    ring_numbers_.push_back(role.ring_number);
  }
}

std::optional<int32_t> TokenRoles::find(const std::string& text) const {
  const auto found = std::find(tokens_.begin(), tokens_.end(), text);
  if (found == tokens_.end()) return std::nullopt;
  return static_cast<int32_t>(found - tokens_.begin());
}

void TokenRoles::check_token(int32_t token) const {
  require(token >= 0 && token < vocab_size(), "token id", token, "0 to ", vocab_size() - 1);
}

void TokenRoles::check_tokens(const std::vector<int32_t>& tokens) const {
  for (const int32_t token : tokens) check_token(token);
}

}  // namespace molspec
