// Ring-closure digits by their meaning instead of their number: flat arrays for host and device.
//
// "c1ccccc1" and "c2ccccc2" are the same text to a chemist. A *ring symbol* is a token, except that
// a digit becomes "opens a ring with the lowest free number" or "closes the r-th youngest open
// ring". Given the open rings, token and symbol determine each other.

#pragma once

#include <cstdint>

#include "common/anywhere.h"

namespace molspec {

struct SpecialIds {
  int32_t pad, bos, eos, unk;

  // Such tokens are never copied.
  MOLSPEC_ANYWHERE bool holds(int32_t token) const {
    return token == pad || token == bos || token == eos || token == unk;
  }
  bool operator==(const SpecialIds& other) const {
    return pad == other.pad && bos == other.bos && eos == other.eos && unk == other.unk;
  }
};

// kOther: special tokens and text that is not SMILES.
enum class TokenKind : uint8_t { kOther, kAtom, kBond, kRing, kOpen, kClose, kDot };

// Numbers of the open rings, oldest first. Rings beyond the capacity are ignored.
struct OpenRings {
  static constexpr int kCapacity = 16;
  int32_t count = 0;
  uint8_t numbers[kCapacity] = {};
};

struct SymbolTable {
  static constexpr int32_t kNoToken = -1;
  static constexpr int kNotRing = -1;
  static constexpr int kRingNumbers = 100;  // SMILES writes 0 to 9 and %10 to %99

  const TokenKind* kinds;      // [vocab_size]
  const int8_t* ring_numbers;  // [vocab_size], kNotRing except for ring-closure digits
  const int32_t* ring_tokens;  // [kRingNumbers], kNoToken if the vocabulary has none
  int32_t vocab_size;
  SpecialIds special;

  // Tokens keep their ids; after them come "open" and "close the r-th youngest", r = 0, 1, ...
  MOLSPEC_ANYWHERE int32_t alphabet_size() const {
    return open_symbol() + 1 + OpenRings::kCapacity;
  }
  MOLSPEC_ANYWHERE int32_t open_symbol() const { return vocab_size; }
  MOLSPEC_ANYWHERE int32_t close_symbol(int rank) const { return vocab_size + 1 + rank; }

  // RDKit numbers rings from 1.
  MOLSPEC_ANYWHERE static int lowest_free(const OpenRings& rings) {
    int number = 1;
    while (index_of(number, rings) >= 0) ++number;
    return number;
  }
  MOLSPEC_ANYWHERE static int index_of(int number, const OpenRings& rings) {
    int index = rings.count - 1;
    while (index >= 0 && rings.numbers[index] != number) --index;
    return index;
  }

  MOLSPEC_ANYWHERE int32_t symbol(int32_t token, const OpenRings& rings) const {
    const int number = ring_numbers[token];
    if (number == kNotRing) return token;
    const int index = index_of(number, rings);
    if (index >= 0) return close_symbol(rings.count - 1 - index);
    return number == lowest_free(rings) ? open_symbol() : token;
  }

  // kNoToken if the symbol has no token here: no such ring is open, or the vocabulary lacks the
  // number.
  MOLSPEC_ANYWHERE int32_t token(int32_t symbol, const OpenRings& rings) const {
    if (symbol < vocab_size) return symbol;
    if (symbol == open_symbol()) return ring_tokens[lowest_free(rings)];
    const int index = rings.count - 1 - (symbol - close_symbol(0));
    return index < 0 ? kNoToken : ring_tokens[rings.numbers[index]];
  }

  // Opens or closes the ring of a token; other tokens change nothing.
  MOLSPEC_ANYWHERE void advance(int32_t token, OpenRings& rings) const {
    const int number = ring_numbers[token];
    if (number == kNotRing) return;
    const int index = index_of(number, rings);
    if (index >= 0) {
      for (int i = index; i + 1 < rings.count; ++i) rings.numbers[i] = rings.numbers[i + 1];
      --rings.count;
    } else if (rings.count < OpenRings::kCapacity) {
      rings.numbers[rings.count++] = static_cast<uint8_t>(number);
    }
  }
};

}  // namespace molspec
