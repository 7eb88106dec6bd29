// All trees that a query's windows will make, for who cannot make them as they are needed: one, or
// of "smart" windows one for every token that they may follow. cuda/rounds.h reads them.

#pragma once

#include <cstdint>
#include <vector>

#include "drafting/windows.h"

namespace molspec {

// The row: the number of trees; for each its last token (-1: any), first node and nodes; then of
// every node its token id and its parent in its tree.
std::vector<int32_t> window_trees(const int32_t* source_ids, int source_length,
                                  const TokenRoles& roles, const WindowOptions& options);

// What no source of at most `longest` tokens exceeds: nodes of one tree, entries of a row.
struct WindowTreeLimits {
  int64_t nodes, entries;
};
WindowTreeLimits window_tree_limits(const WindowOptions& options, int longest);

}  // namespace molspec
