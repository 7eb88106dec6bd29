// Standard beam search that stays on a device: what is kept of every query, a row each. It is the
// search of search/beam.h without looking ahead, cut into the operators of a round:
//
//   stage_beams   the last token of every live hypothesis as a node of the next decoder_step
//   decoder_step
//   rank_tokens   the likeliest tokens behind every node
//   select_beams  the best extensions become the beam
//
// The host begins a row by writing its answer's head and its first place, and looks at the answers
// once in a while.
//
// A hypothesis has a *lane*: a row of token ids, and one of the slots of its path. The first
// hypothesis that extends another keeps its lane, the others copy into lanes that are free. The
// live ones are equally long, so slot (lane, position) is written once: no slot is ever freed,
// and paths that share a prefix share its slots.

#pragma once

#include "ops/answer.h"

namespace molspec {

constexpr int64_t kWidestBeam = 64;  // a block of threads holds a beam and its candidates

// The head of a row of `answers`; then come places and token ids.
struct BeamAnswer : AnswerState {
  int32_t state;
  int32_t count;                         // hypotheses in the beam
  int32_t finished_count;                // hypotheses that finished apart
  int32_t live_count;                    // hypotheses that go on: nodes of the next step
  int32_t length;                        // tokens of each live hypothesis
  int32_t steps, nodes, emitted_tokens;  // SearchStatistics
  int32_t first_node;                    // of the running step, or kNotStaged
  int32_t max_length;                    // tokens of a hypothesis, EOS counted
};
static_assert(sizeof(BeamAnswer) == 40, "molspec.engine.beams reads these bytes");

struct BeamPlace {
  double log_prob;
  int32_t lane;
  int32_t length;    // tokens, EOS counted
  int32_t finished;  // whether EOS was reached
  int32_t unused;
};
static_assert(sizeof(BeamPlace) == 24, "molspec.engine.beams reads these bytes");

// Rows of places by rank and of token ids by lane: those of the beam, and where hypotheses finish
// apart as many for the best of them.
struct BeamAnswers {
  uint8_t* data;  // [query, stride]
  int64_t query_count, stride;
  int64_t beam_size, lane_count;  // lane_count: beam_size, or twice that
  int64_t capacity;               // tokens that a lane has room for

  MOLSPEC_ANYWHERE BeamAnswer& head(int64_t query) const {
    return *reinterpret_cast<BeamAnswer*>(data + query * stride);
  }
  MOLSPEC_ANYWHERE BeamPlace* beam(int64_t query) const {
    return reinterpret_cast<BeamPlace*>(data + query * stride + sizeof(BeamAnswer));
  }
  MOLSPEC_ANYWHERE BeamPlace* finished(int64_t query) const { return beam(query) + beam_size; }
  MOLSPEC_ANYWHERE int32_t* token_ids(int64_t query, int64_t lane) const {
    return reinterpret_cast<int32_t*>(beam(query) + lane_count) + lane * capacity;
  }
  MOLSPEC_ANYWHERE bool finished_apart() const { return lane_count > beam_size; }
  MOLSPEC_ANYWHERE int32_t max_length(int64_t query) const {
    const int32_t asked = head(query).max_length;
    return asked < capacity ? asked : static_cast<int32_t>(capacity);
  }
};

// The slots of a lane's path, by position. Slot (query, lane, position) is the index of that entry.
struct PathRows {
  int32_t* data;  // [query, beam_size, capacity]
  int64_t beam_size, capacity;

  MOLSPEC_ANYWHERE int32_t begin(int64_t query, int64_t lane) const {
    return static_cast<int32_t>((query * beam_size + lane) * capacity);
  }
};

// Types and shapes; what they hold is the device's own.
PathRows path_rows_check(const Tensor& path_slots);
BeamAnswers beam_answers_check(const Tensor& answers, const Tensor& path_slots);

}  // namespace molspec
