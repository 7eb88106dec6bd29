// When a hypothesis ends, for host and device: with EOS, or with so many tokens.

#pragma once

#include <cstdint>

#include "common/anywhere.h"

namespace molspec {

struct Stop {
  int32_t eos_id;
  int32_t max_length;  // tokens of a hypothesis, EOS counted

  // Whether a token finishes a hypothesis: nothing follows it.
  MOLSPEC_ANYWHERE bool finishes(int32_t token_id) const { return token_id == eos_id; }
  // Whether tokens follow a hypothesis of `length` tokens, EOS counted.
  MOLSPEC_ANYWHERE bool continues(bool finished, int32_t length) const {
    return !finished && length < max_length;
  }
};

}  // namespace molspec
