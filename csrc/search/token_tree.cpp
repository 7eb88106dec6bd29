#include "search/token_tree.h"

#include "common/require.h"

namespace molspec {

constexpr uint32_t kAllFree = (1u << kBlockPositions) - 1;

TokenTree::TokenTree(int32_t row_count) {
  require(row_count >= 1, "row_count", row_count, "at least 1");
  blocks_.resize(static_cast<size_t>(row_count));
}

// The parent's block, or an empty one if that is full, so that the descendants fit there too.
int32_t TokenTree::block_for(std::vector<int32_t>& blocks, int32_t parent) {
  if (parent != kNone && free_slots_[parent / kBlockPositions] != 0)
    return parent / kBlockPositions;
  for (const int32_t block : blocks)
    if (free_slots_[block] == kAllFree) return block;
  int32_t block = block_count();
  if (free_blocks_.empty()) {
    nodes_.resize(nodes_.size() + kBlockPositions);
    free_slots_.push_back(kAllFree);
  } else {
    block = free_blocks_.back();
    free_blocks_.pop_back();
  }
  blocks.push_back(block);
  return block;
}

int32_t TokenTree::add(int32_t row, int32_t parent, int32_t token_id) {
  const int32_t block = block_for(blocks_[row], parent);
  uint32_t& free = free_slots_[block];
  const int32_t slot = block * kBlockPositions + __builtin_ctz(free);
  free &= free - 1;
  node(slot) = {token_id, parent, 0, kNone, kNone, kNone};
  if (parent != kNone) {
    node(slot).position = node(parent).position + 1;
    node(slot).next_sibling = node(parent).first_child;
    node(parent).first_child = slot;
  }
  return slot;
}

std::vector<int32_t> TokenTree::path(int32_t slot) const {
  std::vector<int32_t> tokens(static_cast<size_t>(position(slot)));
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token, slot = parent(slot))
    *token = token_id(slot);
  return tokens;
}

int32_t TokenTree::child(int32_t slot, int32_t token_id) const {
  int32_t child = node(slot).first_child;
  while (child != kNone && node(child).token_id != token_id) child = node(child).next_sibling;
  return child;
}

void TokenTree::remove(int32_t slot) {
  if (const int32_t parent = node(slot).parent; parent != kNone) {
    int32_t* link = &node(parent).first_child;
    while (*link != kNone && *link != slot) link = &node(*link).next_sibling;
    if (*link == slot) *link = node(slot).next_sibling;
  }
  free_slots_[slot / kBlockPositions] |= 1u << slot % kBlockPositions;
}

void TokenTree::clear(int32_t row) {
  std::vector<int32_t>& blocks = blocks_[row];
  for (const int32_t block : blocks) free_slots_[block] = kAllFree;
  free_blocks_.insert(free_blocks_.end(), blocks.begin(), blocks.end());
  blocks.clear();
}

void TokenTree::stage(int32_t row, int32_t slot) {
  if (staged_index(slot) != kNone) return;
  node(slot).staged_index = static_cast<int32_t>(staged_.size());
  const int32_t position = node(slot).position;
  // A child of the last staged node extends that node's path.
  if (!path_slots_.empty() && path_slots_.back() == node(slot).parent) {
    staged_.push_back({node(slot).token_id, position, staged_.back().path_begin, row});
    path_slots_.push_back(slot);
    return;
  }
  const auto begin = static_cast<int32_t>(path_slots_.size());
  staged_.push_back({node(slot).token_id, position, begin, row});
  path_slots_.resize(path_slots_.size() + static_cast<size_t>(position) + 1);
  for (int32_t t = begin + position; t >= begin; --t) {
    path_slots_[t] = slot;
    slot = node(slot).parent;
  }
}

void TokenTree::clear_staged() {
  for (size_t i = 0; i < staged_.size(); ++i) node(staged_slot(i)).staged_index = kNone;
  staged_.clear();
  path_slots_.clear();
}

}  // namespace molspec
