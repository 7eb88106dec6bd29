#include "ops/fault.h"

#include <sstream>
#include <stdexcept>
#include <string>

namespace molspec {
namespace {

std::string describe(const Fault& fault) {
  std::ostringstream text;
  const auto range = [&](const char* subject, const char* what, int least) {
    text << subject << fault.index << what << fault.value << ": expected " << least << " to "
         << fault.expected;
  };
  switch (fault.kind) {
    case Fault::kToken:
      range("node ", " has token id ", 0);
      break;
    case Fault::kPosition:
      range("node ", " has position ", 0);
      break;
    case Fault::kPath:
      text << "node " << fault.index << " has its path at " << fault.value
           << ": expected it to end within the " << fault.expected << " path slots";
      break;
    case Fault::kSlot:
      range("node ", " names slot ", 0);
      break;
    case Fault::kMemory:
      text << "a node's memory is " << fault.value << ": expected 0 to " << fault.expected;
      break;
    case Fault::kMemoryLength:
      range("memory ", " has length ", 1);
      break;
    case Fault::kMemoryBlock:
      range("memory ", " names block ", 0);
      break;
    case Fault::kSourceSpan:
      text << "source " << fault.index << " spans " << fault.value
           << " ids or lies outside of source_ids: expected at most " << fault.expected;
      break;
    case Fault::kSourceLength:
      text << "memory " << fault.index << " has length " << fault.value
           << ": expected the source's " << fault.expected;
      break;
    case Fault::kSourceToken:
      range("source ", " has id ", 0);
      break;
    default:
      break;
  }
  return text.str();
}

}  // namespace

void refuse(const Fault& fault) {
  if (fault.kind != Fault::kNone) throw std::runtime_error(describe(fault));
}

}  // namespace molspec
