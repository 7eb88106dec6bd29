#include "search/query_nodes.h"

namespace molspec {

void QueryNodes::keep(const std::vector<Kept>& kept) {
  enum : char { kDrop, kBefore, kAfter };
  // By slot of the whole batch, so one for all queries; read only where it was set before.
  thread_local std::vector<char> scratch;
  scratch.resize(static_cast<size_t>(tree_->block_count()) * kBlockPositions);
  char* marks = scratch.data();
  for (const int32_t slot : slots_) marks[slot] = kDrop;
  for (const Kept& each : kept)
    for (int32_t slot = each.node; slot != TokenTree::kNone && marks[slot] == kDrop;
         slot = tree_->parent(slot))
      marks[slot] = kBefore;
  for (const Kept& each : kept)
    if (each.and_after) marks[each.node] = kAfter;
  for (const int32_t slot : slots_) {
    const int32_t parent = tree_->parent(slot);
    if (parent != TokenTree::kNone && marks[parent] == kAfter) marks[slot] = kAfter;
  }
  const auto dropped = [&](int32_t slot) { return marks[slot] == kDrop; };
  for (const int32_t slot : slots_)
    if (dropped(slot)) tree_->remove(slot);
  std::erase_if(slots_, dropped);
}

}  // namespace molspec
