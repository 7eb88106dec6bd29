// left_pad: ragged sequences -> one rectangle whose rows end in the same column.
//
// A row's position offset is its number of pads: the token in column c has position c - offset.

#pragma once

#include <cstdint>
#include <tuple>

#include "ops/refuse.h"

namespace molspec {

struct LeftPadProblem {
  int64_t row_count;
  int64_t width;             // the longest row
  const int64_t* token_ids;  // all rows, one after the other
  int64_t token_count;
  const int64_t* lengths;  // [row], each at most token_count: no sum of them wraps
  int64_t pad_id;
  int64_t* padded_ids;        // [row, width]
  int64_t* position_offsets;  // [row]
};

// Everything but the outputs and, off the CPU, the width.
LeftPadProblem left_pad_check(const Tensor& token_ids, const Tensor& lengths, int64_t pad_id);

// The results, once the width is known, where `like` lies; the problem points to them.
std::tuple<Tensor, Tensor> left_pad_results(LeftPadProblem& problem, const Tensor& like);

}  // namespace molspec
