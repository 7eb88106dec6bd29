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
// its first token, and pads the others to it, so trees that it does not confirm cost several times
// the plain loop. So do queries that are ahead of the others, if few are.
class DraftLedger {
 public:
  // Whether there are columns left to lose on another row of this length: a share of those that
  // decoding needs without drafts, and as many as a call costs in any case.
  bool pays(size_t length) const {
    return spent_ + step_.padded() + static_cast<double>(length) <= kCallCost + 1.03 * needed_;
  }
  // Begins another step.
  void step() {
    spent_ += step_.padded();
    step_ = {};
    paths_ = 0;
  }
  // A path needs a row, BOS counted; with a tree after it, a row to each leaf.
  void draft(const DraftTree& tree, size_t length) {
    needed_ += static_cast<double>(length);
    ++paths_;
    std::vector<size_t> lengths = {length};  // of the rows that end with the path, and each node
    for (const int32_t parent : tree.parents) lengths.push_back(lengths[parent + 1] + 1);
    for (const int32_t parent : tree.parents) lengths[parent + 1] = 0;  // not a leaf
    for (const size_t each : lengths)
      if (each > 0) step_.add(each);
  }
  // Each confirmed token saves a row that ends with it, and its query's share of a call.
  void confirm(size_t count, size_t length) {
    for (size_t i = 1; i <= count; ++i)
      needed_ += static_cast<double>(length + i) + kCallCost / paths_;
  }

 private:
  // Of a call, in columns: on a CPU (engine/torch/module.py). On a device, columns cost less.
  static constexpr double kCallCost = 64;

  struct Columns {
    double rows = 0, longest = 0, sum = 0;
    void add(size_t length) {
      ++rows;
      longest = std::max(longest, static_cast<double>(length));
      sum += static_cast<double>(length);
    }
    // Rows of other lengths are padded, or evaluated in a second call.
    double padded() const { return std::min(rows * longest, sum + kCallCost); }
  };
  double needed_ = 0, spent_ = 0;
  double paths_ = 0;  // of the step
  Columns step_;
};

}  // namespace molspec
