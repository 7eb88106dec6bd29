// The nodes of one query in the tree of its batch.

#pragma once

#include <cstdint>
#include <vector>

#include "drafting/draft_tree.h"
#include "search/token_tree.h"

namespace molspec {

class QueryNodes {
 public:
  QueryNodes(TokenTree* tree, int32_t row) : tree_(tree), row_(row) {}

  // Frees all nodes and adds BOS.
  int32_t begin(int32_t bos) {
    tree_->clear(row_);
    slots_.clear();
    return add(TokenTree::kNone, bos);
  }
  int32_t add(int32_t parent, int32_t token_id) {
    slots_.push_back(tree_->add(row_, parent, token_id));
    return slots_.back();
  }
  // The node of a token after `parent`, added if it is new.
  int32_t child_or_new(int32_t parent, int32_t token_id) {
    const int32_t child = tree_->child(parent, token_id);
    return child != TokenTree::kNone ? child : add(parent, token_id);
  }

  // Stages a node whose parent is evaluated or staged.
  void stage(int32_t node) const { tree_->stage(row_, node); }
  // Stages drafts after `node`, writes their slots to `slots` and returns how many there are. A
  // draft at max_position is left out (kNone), with those after it: no token may follow it, so its
  // row would be wasted.
  int32_t stage(int32_t node, const DraftTree& drafts, int32_t max_position,
                std::vector<int32_t>& slots) {
    int32_t count = 0;
    slots.assign(drafts.parents.size(), TokenTree::kNone);
    for (size_t i = 0; i < slots.size(); ++i) {
      const int32_t after = drafts.parents[i];
      const int32_t parent = after == DraftTree::kRoot ? node : slots[after];
      if (parent == TokenTree::kNone || tree_->position(parent) + 1 >= max_position) continue;
      slots[i] = child_or_new(parent, drafts.token_ids[i]);
      stage(slots[i]);
      ++count;
    }
    return count;
  }

  struct Kept {
    int32_t node;
    bool and_after;  // with the nodes after it
  };
  // Frees all nodes except those of the paths to `kept`, and after them.
  void keep(const std::vector<Kept>& kept) {
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

 private:
  TokenTree* tree_;
  int32_t row_;
  std::vector<int32_t> slots_;  // parents before children
};

}  // namespace molspec
