#include "drafting/ngram_file.h"

#include <cmath>
#include <stdexcept>

namespace molspec {
namespace {

uint64_t fnv1a(const std::string& bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (size_t i = 0; i < size; ++i) {
    hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001b3U;
  }
  return hash;
}

uint64_t stored_hash(const std::string& bytes, size_t offset) {
  uint64_t hash = 0;
  for (size_t i = kNgramHashSize; i-- > 0;) {
    hash = (hash << 8) | static_cast<uint8_t>(bytes[offset + i]);
  }
  return hash;
}

}  // namespace

void fail_ngram(const std::string& what) { throw std::invalid_argument("n-gram model: " + what); }

float coded_probability(uint8_t code) { return std::exp2(-static_cast<float>(code) / 16.0F); }

void NgramWriter::number(uint64_t value, int byte_count) {
  for (int i = 0; i < byte_count; ++i) bytes_ += static_cast<char>((value >> (8 * i)) & 0xFF);
}

void NgramWriter::varint(uint32_t value) {
  for (; value >= 0x80; value >>= 7) number((value & 0x7F) | 0x80, 1);
  number(value, 1);
}

std::string NgramWriter::finish() {
  number(fnv1a(bytes_, bytes_.size()), kNgramHashSize);
  return bytes_;
}

NgramReader::NgramReader(const std::string& bytes) : bytes_(bytes) {
  if (bytes.compare(0, kNgramMagicSize, kNgramMagic) != 0) {
    fail_ngram("the file does not begin with " + std::string(kNgramMagic));
  }
  if (bytes.size() < kNgramMagicSize + kNgramHashSize) fail_ngram("the file ends early");
  end_ = bytes.size() - kNgramHashSize;
  if (stored_hash(bytes, end_) != fnv1a(bytes, end_)) {
    fail_ngram("the hash at byte " + std::to_string(end_) +
               " does not fit the bytes before: the file is damaged or cut short");
  }
}

uint8_t NgramReader::byte() {
  if (at_end()) fail_ngram("ends early, at byte " + std::to_string(offset_));
  return static_cast<uint8_t>(bytes_[offset_++]);
}

uint32_t NgramReader::number(int byte_count) {
  uint32_t value = 0;
  for (int i = 0; i < byte_count; ++i) value |= static_cast<uint32_t>(byte()) << (8 * i);
  return value;
}

uint32_t NgramReader::varint() {
  uint32_t value = 0;
  for (int shift = 0; shift < 28; shift += 7) {
    const uint8_t part = byte();
    value |= static_cast<uint32_t>(part & 0x7F) << shift;
    if ((part & 0x80) == 0) return value;
  }
  fail_ngram("number too long before byte " + std::to_string(offset_));
}

}  // namespace molspec
