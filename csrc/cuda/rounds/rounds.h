// Shared by the rounds of greedy decoding and of beam search: the sources of drafts.

#pragma once

#include "drafting/guess_rows.h"
#include "ops/refuse.h"
#include "ops/steps.h"

namespace molspec::cuda {

// The data of guesses on a device, as tensors of rows (drafting/guess_rows.h). The host makes
// `tables` from the model once, and a query's copy text when it starts; the states of paths stay on
// the device.
struct GuessTensors {
  const uint8_t* tables;  // GuessTables
  uint8_t* texts;         // [query, text_stride], GuessTextRow
  uint8_t* states;        // [query, state_count, state_stride]
  int64_t text_stride, state_count, state_stride;

  MOLSPEC_ANYWHERE uint8_t* text(int64_t query) const { return texts + query * text_stride; }
  MOLSPEC_ANYWHERE uint8_t* state(int64_t query, int64_t index) const {
    return states + (query * state_count + index) * state_stride;
  }
};

}  // namespace molspec::cuda
