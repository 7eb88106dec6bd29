// The decoded and drafted tokens of a batch of queries as trees, and where each token's keys
// and values are in the key-value cache.
//
// A node is its slot: block * kBlockPositions + position in the block. A query owns whole blocks,
// and a node lies in its parent's block while there is room, so a path touches few blocks:
// attention reads blocks whole. Reordering hypotheses moves indices, never keys and values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/limits.h"

namespace molspec {

class TokenTree {
 public:
  static constexpr int32_t kNone = -1;  // no node; the parent of BOS

  // One row of the operator decoder_step (csrc/ops/steps.h).
  struct StagedNode {
    int32_t token_id, position, path_begin, memory;
  };

  // Throws std::invalid_argument if row_count is below 1.
  explicit TokenTree(int32_t row_count);

  // Adds a node after `parent`, or the BOS of the query in a row of the batch if parent is kNone.
  int32_t add(int32_t row, int32_t parent, int32_t token_id);
  // Frees one slot. The nodes after it must be freed too, before the next `add`.
  void remove(int32_t slot);
  // Frees all slots of a row.
  void clear(int32_t row);

  int32_t token_id(int32_t slot) const { return node(slot).token_id; }
  int32_t parent(int32_t slot) const { return node(slot).parent; }
  int32_t position(int32_t slot) const { return node(slot).position; }
  // The index of a node among those that are staged; kNone of another one.
  int32_t staged_index(int32_t slot) const { return node(slot).staged_index; }
  // The tokens of the path to a node, without BOS.
  std::vector<int32_t> path(int32_t slot) const;
  // The first node after `slot`, and the next node with the same parent; or kNone.
  int32_t first_child(int32_t slot) const { return node(slot).first_child; }
  int32_t next_sibling(int32_t slot) const { return node(slot).next_sibling; }
  // The node of a token after `slot`, or kNone.
  int32_t child(int32_t slot, int32_t token_id) const;
  // Blocks that the cache needs for all slots in use.
  int32_t block_count() const { return static_cast<int32_t>(nodes_.size()) / kBlockPositions; }

  // The next step: nodes to evaluate, parents before children. To stage one again has no effect.
  void stage(int32_t row, int32_t slot);
  void clear_staged();
  const std::vector<StagedNode>& staged() const { return staged_; }
  const std::vector<int32_t>& path_slots() const { return path_slots_; }
  int32_t staged_slot(size_t i) const {
    return path_slots_[staged_[i].path_begin + staged_[i].position];
  }

 private:
  struct Node {
    int32_t token_id, parent, position;
    int32_t first_child, next_sibling, staged_index;
  };
  const Node& node(int32_t slot) const { return nodes_[slot]; }
  Node& node(int32_t slot) { return nodes_[slot]; }
  int32_t block_for(std::vector<int32_t>& blocks, int32_t parent);

  std::vector<Node> nodes_;                   // by slot
  std::vector<uint32_t> free_slots_;          // by block: a bit for each free slot
  std::vector<int32_t> free_blocks_;          // of no query
  std::vector<std::vector<int32_t>> blocks_;  // by row of the batch
  std::vector<StagedNode> staged_;
  std::vector<int32_t> path_slots_;
};

}  // namespace molspec
