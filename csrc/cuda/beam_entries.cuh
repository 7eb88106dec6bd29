// Hypotheses (rules/beam.h) while a block works on them: read from the places of an answer, and
// written there.

#pragma once

#include "cuda/beam_rows.h"
#include "rules/beam.h"

namespace molspec::cuda {

// How many likeliest tokens a node has.
inline __device__ int32_t token_count(const BestTokens& best, int64_t slot) {
  auto count = static_cast<int32_t>(best.count);
  while (count > 0 && best.ids[slot * best.count + count - 1] == kNoToken) --count;
  return count;
}

// Where the last tokens and the drafts of each hypothesis stand in a plan of windows.
struct PlannedWindows {
  int32_t open_before[kWidestBeam + 1], drafts_before[kWidestBeam + 1];  // a rank

  // One thread's work.
  __device__ void find(const BeamEntry* beam, const BeamPlace* places, int32_t count,
                       int32_t max_length) {
    open_before[0] = drafts_before[0] = 0;
    for (int32_t rank = 0; rank < count; ++rank) {
      const bool open = beam[rank].continues(max_length);
      open_before[rank + 1] = open_before[rank] + open;
      drafts_before[rank + 1] = drafts_before[rank] + (open ? places[rank].draft_count : 0);
    }
  }
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
