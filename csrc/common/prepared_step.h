// A decoder pass that is callable without torch: the library of operators offers it to the library
// of searches.

#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace molspec {

// Bytes that the operator prepare_step writes: all arguments of a pass except the nodes.
constexpr int64_t kPreparedStepBytes = 256;

// Runs decoder_step over `nodes` (int32 [node_count, 4]). Returns null or an error message, which
// is valid until the calling thread's next call.
using StepFunction = const char* (*)(const void* prepared, const void* nodes, int64_t node_count,
                                     const int32_t* path_slots, int64_t path_slot_count);

// Calls `step`; returns null, or the message of its error as a StepFunction does.
template <typename Step>
const char* error_of(Step step) {
  try {
    step();
    return nullptr;
  } catch (const std::exception& error) {
    thread_local std::string text;
    text = error.what();
    return text.c_str();
  }
}

}  // namespace molspec
