// Writes the rows of bytes that a device guesses from (guess_rows.h).

#pragma once

#include <cstdint>
#include <string>

#include "drafting/guess.h"

namespace molspec {

// Of a model that has an n-gram model; throws std::invalid_argument where it has none.
std::string guess_tables_row(const GuessModel& model);

// Of a query that begins. source_ids without BOS and EOS; throws std::invalid_argument for ids
// outside of the vocabulary.
std::string guess_text_row(const GuessModel& model, const int32_t* source_ids, int source_length);

// Bytes that no text row and no state's row of a source of at most `longest` tokens exceeds.
struct GuessRowLimits {
  int64_t text, state;
};
GuessRowLimits guess_row_limits(const GuessModel& model, int longest);

}  // namespace molspec
