#include "search/lanes.h"

namespace molspec {

int32_t Lanes::begin() {
  nodes_.clear();
  unstage();
  return nodes_.add(*row_.tree, row_.index, TokenTree::kNone, row_.bos());
}

int32_t Lanes::child_or_new(int32_t parent, int32_t token_id) {
  const int32_t child = row_.tree->child(parent, token_id);
  if (child != TokenTree::kNone) return child;
  return nodes_.add(*row_.tree, row_.index, parent, token_id);
}

void Lanes::unstage() {
  staged_.clear();
  rows_.clear();
}

void Lanes::stage(int32_t node) {
  if (!rows_.emplace(node, static_cast<int32_t>(staged_.size())).second) return;
  staged_.push_back(node);
}

int32_t Lanes::stage(int32_t node, const DraftTree& drafts, int32_t max_position) {
  int32_t count = 0;
  placed_.assign(static_cast<size_t>(drafts.size()), TokenTree::kNone);
  for (size_t i = 0; i < placed_.size(); ++i) {
    const int32_t after = drafts.parents[i];
    const int32_t parent = after == DraftTree::kRoot ? node : placed_[static_cast<size_t>(after)];
    if (parent == TokenTree::kNone || row_.tree->position(parent) + 1 >= max_position) continue;
    placed_[i] = child_or_new(parent, drafts.token_ids[i]);
    stage(placed_[i]);
    ++count;
  }
  return count;
}

void Lanes::submit() const {
  for (const int32_t slot : staged_) row_.tree->stage(row_.index, slot);
}

void Lanes::keep(const std::vector<int32_t>& nodes) {
  kept_.clear();
  for (const int32_t node : nodes) kept_.push_back(first_entry(node));
  nodes_.collect(*row_.tree, kept_);
}

void Lanes::cut_after(int32_t node, int32_t token_id) {
  node = row_.tree->child(node, token_id);
  while (node != TokenTree::kNone) {
    const int32_t next = row_.tree->child(node, token_id);
    nodes_.remove(*row_.tree, node);
    node = next;
  }
}

}  // namespace molspec
