// The problems of the operators of dense batches, which are for loops without a cache: checked by
// ops/dense_operators.h, computed on a device.

#pragma once

#include <cstdint>

namespace molspec {

// left_pad: ragged sequences -> one rectangle whose rows end in the same column.
//
// A row's position offset is its number of pads: the token in column c has position c - offset.
struct LeftPadProblem {
  const int64_t* token_ids;  // all rows, one after the other
  const int64_t* lengths;    // [row], each at most token_count: no sum of them overflows
  int64_t token_count, row_count;
  int64_t pad_id;
  int64_t width;              // the longest row
  int64_t* padded_ids;        // [row, width]
  int64_t* position_offsets;  // [row]
};

// expand_drafts: every hypothesis with every draft of its query after it.
//
// Row h * draft_count + d is hypothesis h followed by draft d. Hypotheses are padded on the left,
// so drafts start in one column; a draft shorter than the longest is padded on the right.
struct ExpandDraftsProblem {
  const int64_t* token_ids;         // [hypothesis, length]
  const int64_t* position_offsets;  // [hypothesis]
  const int64_t* query_indices;     // [hypothesis]
  const int64_t* draft_ids;         // [query, draft, draft_length]
  int64_t hypothesis_count, length;
  int64_t query_count, draft_count, draft_length;
  int64_t* expanded_ids;      // [hypothesis * draft, length + draft_length]
  int64_t* expanded_offsets;  // [hypothesis * draft]
  int64_t* expanded_queries;  // [hypothesis * draft]
};

// acceptance_length: how many tokens of each draft agree with the model's.
struct AcceptanceLengthProblem {
  const int64_t* draft_ids;      // [row, draft_length]
  const int64_t* draft_lengths;  // [row]; the rest is padding
  const int64_t* predicted_ids;  // [row, draft_length]: the model's token at each draft position
  int64_t row_count, draft_length;
  int64_t* accepted;  // [row]: longest prefix where both agree
};

}  // namespace molspec
