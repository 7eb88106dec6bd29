// A pass of the decoder for callers without torch: how a library of operators lends its own to the
// searches of another one.

#pragma once

#include <cstdint>

namespace molspec {

// Bytes of what the operator prepare_step writes: everything that a pass needs but the nodes.
constexpr int64_t kPreparedStepBytes = 256;

// decoder_step over `nodes` (int32 [node_count, 4]); what is wrong, or null. The text lasts until
// the calling thread's next call.
using StepFunction = const char* (*)(const void* prepared, const void* nodes, int64_t node_count,
                                     const int32_t* path_slots, int64_t path_slot_count);

}  // namespace molspec
