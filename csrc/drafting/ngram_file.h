// The file ngram.bin: an n-gram model in few bytes, little-endian.
//
//   "MSNGRAM2", u8 order, u8 rewrites (0 or 1), u16 alphabet size, u32 number of contexts;
//   for every context, breadth first from the empty one: its symbol (none for the empty context),
//   varint child count, u8 back-off code, varint continuation count, and so many pairs of a symbol
//   and a u8 probability code, symbols rising;
//   u64 FNV-1a hash of all bytes before.
//
// Symbols are u8 where the alphabet fits, else u16. A probability code c stands for 2^(-c/16), a
// back-off code for kMaxBackOff times that.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/require.h"

namespace molspec {

constexpr char kNgramMagic[] = "MSNGRAM2";
constexpr size_t kNgramMagicSize = sizeof(kNgramMagic) - 1;
constexpr size_t kNgramHashSize = sizeof(uint64_t);
constexpr float kMaxBackOff = 4.0F;

constexpr int symbol_bytes(int alphabet_size) { return alphabet_size <= 256 ? 1 : 2; }

inline float coded_probability(uint8_t code) {
  return std::exp2(-static_cast<float>(code) / 16.0F);
}

inline uint64_t fnv1a(const std::string& bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001b3U;
  return hash;
}

template <typename... Parts>
[[noreturn]] void fail_ngram(const Parts&... what) {
  throw_invalid("n-gram model: ", what...);
}

// Writes numbers; never fails.
class NgramWriter {
 public:
  void number(uint64_t value, int byte_count) {
    for (int i = 0; i < byte_count; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xFF);
  }
  void varint(uint32_t value) {
    for (; value >= 0x80; value >>= 7) number((value & 0x7F) | 0x80, 1);
    number(value, 1);
  }
  void text(const char* value) { bytes_ += value; }
  // The bytes with their hash.
  std::string finish() {
    number(fnv1a(bytes_, bytes_.size()), kNgramHashSize);
    return bytes_;
  }

 private:
  std::string bytes_;
};

// Reads numbers; throws std::invalid_argument at the end of the bytes.
class NgramReader {
 public:
  // Throws std::invalid_argument if magic or hash is wrong. The bytes must outlive the reader.
  explicit NgramReader(const std::string& bytes) : bytes_(bytes) {
    if (bytes.compare(0, kNgramMagicSize, kNgramMagic) != 0)
      fail_ngram("the file does not begin with ", kNgramMagic);
    if (bytes.size() < kNgramMagicSize + kNgramHashSize) fail_ngram("the file ends early");
    end_ = bytes.size() - kNgramHashSize;
    uint64_t stored = 0;
    for (size_t i = bytes.size(); i-- > end_;)
      stored = (stored << 8) | static_cast<uint8_t>(bytes[i]);
    if (stored != fnv1a(bytes, end_))
      fail_ngram("the hash at byte ", end_,
                 " does not fit the bytes before: the file is damaged or cut short");
  }

  size_t offset() const { return offset_; }
  bool at_end() const { return offset_ == end_; }
  uint32_t number(int byte_count) {
    uint32_t value = 0;
    for (int i = 0; i < byte_count; ++i) value |= static_cast<uint32_t>(byte()) << (8 * i);
    return value;
  }
  uint32_t varint() {
    uint32_t value = 0;
    for (int shift = 0; shift < 28; shift += 7) {
      const uint8_t part = byte();
      value |= static_cast<uint32_t>(part & 0x7F) << shift;
      if ((part & 0x80) == 0) return value;
    }
    fail_ngram("number too long before byte ", offset_);
  }

 private:
  uint8_t byte() {
    if (at_end()) fail_ngram("ends early, at byte ", offset_);
    return static_cast<uint8_t>(bytes_[offset_++]);
  }

  const std::string& bytes_;
  size_t end_;
  size_t offset_ = kNgramMagicSize;
};

}  // namespace molspec
