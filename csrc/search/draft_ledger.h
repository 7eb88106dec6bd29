// Drafts for a module without a cache: only while the rows that they save pay for those that they
// cost.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "drafting/draft_tree.h"

namespace molspec {

// Counts the columns of a batch's rows. Such a module evaluates every path of a tree as a row from
// its first token, so trees that it does not confirm cost several times the plain loop.
class DraftLedger {
 public:
  // Whether there are columns left to lose: a share of those that decoding needs without drafts,
  // and as many as a few calls cost in any case.
  bool pays() const { return lost_ <= 48 + 0.03 * needed_; }
  // A path needs a row, BOS counted; a tree after it costs the columns of its leaves' rows, less
  // the path's own.
  void draft(const DraftTree& tree, size_t length) {
    std::vector<int32_t> depths;
    std::vector<bool> is_leaf(tree.token_ids.size(), true);
    for (const int32_t parent : tree.parents) {
      depths.push_back(parent == DraftTree::kRoot ? 1 : depths[parent] + 1);
      if (parent != DraftTree::kRoot) is_leaf[parent] = false;
    }
    double columns = 0;
    for (size_t i = 0; i < depths.size(); ++i)
      if (is_leaf[i]) columns += static_cast<double>(length) + depths[i];
    needed_ += static_cast<double>(length);
    lost_ += std::max(0.0, columns - static_cast<double>(length));
  }
  // Each confirmed token saves a row that ends with it.
  void confirm(size_t count, size_t length) {
    for (size_t i = 1; i <= count; ++i) lost_ -= static_cast<double>(length + i);
  }

 private:
  double needed_ = 0, lost_ = 0;
};

}  // namespace molspec
