// Limits of the kernels, which Python reads too (native.cpp).

#pragma once

#include <cstdint>

namespace molspec {

// Positions of a block of a cache of keys and values.
constexpr int32_t kBlockPositions = 16;
// Searches that run on a device.
constexpr int64_t kMostTreeNodes = 32;  // of a draft tree: one a lane
constexpr int kTreeWarps = 8;           // that guess for a tree, each with a scratch state
constexpr int kTreeSpares = 16;         // states of candidate nodes of a tree
constexpr int kTreeStates = kTreeSpares + kTreeWarps;  // of a query, beside one for each node
constexpr int64_t kWidestBeam = 64;     // a block of threads holds a beam and its candidates
constexpr int kMostNgramSymbols = 512;  // of an n-gram model
constexpr int64_t kFewestNodes = 8;     // of a captured step; the sizes double from here on
// Threads that a step on the CPU may use.
constexpr int kMostThreads = 64;
// Nodes that the decoder on the CPU takes through its layers at a time, so that their activations
// stay in the L2 cache.
constexpr int64_t kChunkRows = 64;

}  // namespace molspec
