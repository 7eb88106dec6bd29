// What is wrong with one of an operator's values, found where the value lies: on the host or on a
// device. The text is made on the host.

#pragma once

#include <cstdint>

namespace molspec {

struct Fault {
  enum Kind : int32_t {
    kNone,
    kToken,
    kPosition,
    kPath,
    kSlot,
    kMemory,
    kMemoryLength,
    kMemoryBlock,
    kSourceSpan,
    kSourceLength,
    kSourceToken,
  };
  int32_t kind = kNone;
  int32_t index = 0;  // of the node, the memory or the source
  int64_t value = 0;
  int64_t expected = 0;  // the most, or the right value
};

// Throws std::runtime_error where there is a fault: "node 3 has token id 17: expected 0 to 12".
void refuse(const Fault& fault);

}  // namespace molspec
