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

#include <cstddef>
#include <cstdint>
#include <string>

namespace molspec {

constexpr char kNgramMagic[] = "MSNGRAM2";
constexpr size_t kNgramMagicSize = sizeof(kNgramMagic) - 1;
constexpr size_t kNgramHashSize = sizeof(uint64_t);
constexpr float kMaxBackOff = 4.0F;

constexpr int symbol_bytes(int alphabet_size) { return alphabet_size <= 256 ? 1 : 2; }

float coded_probability(uint8_t code);

// Writes numbers; never fails.
class NgramWriter {
 public:
  void number(uint64_t value, int byte_count);
  void varint(uint32_t value);
  void text(const char* value) { bytes_ += value; }
  // The bytes with their hash.
  std::string finish();

 private:
  std::string bytes_;
};

// Reads numbers; throws std::invalid_argument at the end of the bytes.
class NgramReader {
 public:
  // Throws std::invalid_argument where magic or hash are wrong. The bytes must outlive the reader.
  explicit NgramReader(const std::string& bytes);

  size_t offset() const { return offset_; }
  bool at_end() const { return offset_ == end_; }
  uint32_t number(int byte_count);
  uint32_t varint();

 private:
  uint8_t byte();

  const std::string& bytes_;
  size_t end_;
  size_t offset_ = kNgramMagicSize;
};

[[noreturn]] void fail_ngram(const std::string& what);

}  // namespace molspec
