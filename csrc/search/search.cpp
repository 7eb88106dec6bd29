#include "search/search.h"

namespace molspec {

Path Search::path(int32_t node, double log_prob) const {
  return {row_.index, row_.tree->path(node), log_prob, row_.tree->parent(node)};
}

void Search::place(const DraftTree& drafts, int32_t max_length, std::vector<int32_t>& slots,
                   std::vector<int32_t>& parents) {
  const auto last = static_cast<int32_t>(slots.size()) - 1;
  placed_.assign(static_cast<size_t>(drafts.size()), kLeftOut);
  for (size_t i = 0; i < placed_.size(); ++i) {
    const int32_t after = drafts.parents[i];
    const int32_t parent = after == DraftTree::kRoot ? last : placed_[static_cast<size_t>(after)];
    if (parent == kLeftOut) continue;
    const int32_t slot = slots[static_cast<size_t>(parent)];
    if (row_.tree->position(slot) + 1 >= max_length) continue;
    placed_[i] = static_cast<int32_t>(slots.size());
    slots.push_back(row_.add(slot, drafts.token_ids[i]));
    parents.push_back(parent);
  }
}

}  // namespace molspec
