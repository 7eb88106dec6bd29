// Hypotheses while a block works on them: read from the places of an answer, and written there.

#pragma once

#include "ops/beam_rows.h"
#include "ops/rank_tokens.h"

namespace molspec::cuda {

struct BeamEntry {
  double log_prob;
  int32_t node;  // of the last token, or while there is a `token` of the one before
  int32_t length;
  int32_t finished;
  float confidence;  // looking ahead: that standard beam search comes by
  int32_t token;     // whose node is not looked up yet, or kNoToken
  int32_t parent;    // of a node that is new, or kNone
};

// Threads stride over places.
inline __device__ void read_places(const BeamPlace* places, int32_t count, BeamEntry* entries) {
  for (int32_t i = threadIdx.x; i < count; i += blockDim.x)
    entries[i] = {places[i].log_prob, places[i].node, places[i].length, places[i].finished, 1.0f,
                  kNoToken,           BeamNode::kNone};
}

inline __device__ void write_places(const BeamEntry* entries, int32_t count, BeamPlace* places) {
  for (int32_t i = threadIdx.x; i < count; i += blockDim.x)
    places[i] = {entries[i].log_prob, entries[i].node, entries[i].length, entries[i].finished, 0};
}

}  // namespace molspec::cuda
