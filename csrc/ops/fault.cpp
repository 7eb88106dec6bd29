#include "ops/fault.h"

#include <stdexcept>
#include <string>

#include "common/require.h"

namespace molspec {
namespace {

// "node 3 has token id 17: expected 0 to 12"
std::string describe(const Fault& fault) {
  const auto range = [&](const char* subject, const char* what, int least) {
    return joined(subject, fault.index, what, fault.value, ": expected ", least, " to ",
                  fault.expected);
  };
  switch (fault.kind) {
    case Fault::kToken:
      return range("node ", " has token id ", 0);
    case Fault::kPosition:
      return range("node ", " has position ", 0);
    case Fault::kPath:
      return joined("node ", fault.index, " has its path at ", fault.value,
                    ": expected it to end within the ", fault.expected, " path slots");
    case Fault::kSlot:
      return range("node ", " names slot ", 0);
    case Fault::kMemory:
      return joined("a node's memory is ", fault.value, ": expected 0 to ", fault.expected);
    case Fault::kMemoryLength:
      return range("memory ", " has length ", 1);
    case Fault::kMemoryBlock:
      return range("memory ", " names block ", 0);
    case Fault::kSourceSpan:
      return joined("source ", fault.index, " spans ", fault.value,
                    " ids or lies outside of source_ids: expected at most ", fault.expected);
    case Fault::kSourceLength:
      return joined("memory ", fault.index, " has length ", fault.value, ": expected the source's ",
                    fault.expected);
    case Fault::kSourceToken:
      return range("source ", " has id ", 0);
    default:
      return "";
  }
}

}  // namespace

void refuse(const Fault& fault) {
  if (fault.kind != Fault::kNone) throw std::runtime_error(describe(fault));
}

}  // namespace molspec
