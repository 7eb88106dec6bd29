// Caches of keys and values are made of blocks.

#pragma once

#include <cstdint>

namespace molspec {

constexpr int32_t kBlockPositions = 16;

}  // namespace molspec
