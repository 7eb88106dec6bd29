#include "search/token_tree.h"

namespace molspec {

void TokenTree::take_block(Query& query) {
  int32_t block = block_count();
  if (free_blocks_.empty()) {
    nodes_.resize(nodes_.size() + kBlockPositions);
  } else {
    block = free_blocks_.back();
    free_blocks_.pop_back();
  }
  query.blocks.push_back(block);
  for (int32_t lane = kBlockPositions; lane-- > 0;)
    query.free_slots.push_back(block * kBlockPositions + lane);
}

int32_t TokenTree::add(int32_t query, int32_t parent, int32_t token_id) {
  Query& owner = queries_[static_cast<size_t>(query)];
  if (owner.free_slots.empty()) take_block(owner);
  const int32_t slot = owner.free_slots.back();
  owner.free_slots.pop_back();
  node(slot) = {token_id, parent, 0, kNone, kNone};
  if (parent != kNone) {
    node(slot).position = node(parent).position + 1;
    node(slot).next_sibling = node(parent).first_child;
    node(parent).first_child = slot;
  }
  return slot;
}

int32_t TokenTree::child(int32_t slot, int32_t token_id) const {
  int32_t child = node(slot).first_child;
  while (child != kNone && node(child).token_id != token_id) child = node(child).next_sibling;
  return child;
}

void TokenTree::remove(int32_t query, int32_t slot) {
  if (const int32_t parent = node(slot).parent; parent != kNone) {
    int32_t* link = &node(parent).first_child;
    while (*link != kNone && *link != slot) link = &node(*link).next_sibling;
    if (*link == slot) *link = node(slot).next_sibling;
  }
  queries_[static_cast<size_t>(query)].free_slots.push_back(slot);
}

void TokenTree::clear(int32_t query) {
  Query& owner = queries_[static_cast<size_t>(query)];
  free_blocks_.insert(free_blocks_.end(), owner.blocks.begin(), owner.blocks.end());
  owner.blocks.clear();
  owner.free_slots.clear();
}

void TokenTree::stage(int32_t query, int32_t slot) {
  const auto begin = static_cast<int32_t>(path_slots_.size());
  const int32_t position = node(slot).position;
  staged_.push_back({node(slot).token_id, position, begin, query});
  path_slots_.resize(path_slots_.size() + static_cast<size_t>(position) + 1);
  for (int32_t t = begin + position; t >= begin; --t) {
    path_slots_[static_cast<size_t>(t)] = slot;
    slot = node(slot).parent;
  }
}

void TokenTree::clear_staged() {
  staged_.clear();
  path_slots_.clear();
}

}  // namespace molspec
