// Shared by the rounds of greedy decoding and of beam search: the nodes of a step, and the sources
// of drafts.

#pragma once

#include "drafting/guess_rows.h"
#include "ops/refuse.h"
#include "ops/steps.h"

namespace molspec::cuda {

// The window trees of every query, from which a device chooses. They depend on the source and at
// most on the last token (drafting/windows.h), so the host makes them when the query starts. Row q
// has the number of trees, then for each (last token, first node, nodes), then token ids and
// parents of all nodes, pairwise. A last token of -1 means any, a parent of -1 the last token.
struct WindowRows {
  const int32_t* data;  // [query, stride]
  int64_t stride;

  MOLSPEC_ANYWHERE const int32_t* row(int64_t query) const { return data + query * stride; }
};

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
