// What the answers of every search that stays on a device have in common: a row a query.

#pragma once

#include <cstdint>

#include "ops/anywhere.h"
#include "ops/refuse.h"

namespace molspec {

struct AnswerState {
  enum State : int32_t { kFree, kLive, kDone, kNoNumbers };
  static constexpr int32_t kNotStaged = -1;  // the first node of a query that has none in the step
};

}  // namespace molspec
