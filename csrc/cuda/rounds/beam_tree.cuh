// A query of a beam search, for its block of threads: its hypotheses (rules/beam.h), read from and
// written to the places of its answer, and its tree: the nodes in use, new nodes, freed nodes.

#pragma once

#include "cuda/rounds/beam_rows.h"
#include "cuda/warp.cuh"
#include "rules/beam.h"

namespace molspec::cuda {

// The number of a node's likeliest tokens.
inline __device__ int32_t token_count(const BestTokens& best, int64_t slot) {
  auto count = static_cast<int32_t>(best.count);
  while (count > 0 && best.ids[slot * best.count + count - 1] == kNoToken) --count;
  return count;
}

// Threads stride over places.
inline __device__ void read_places(const BeamPlace* places, int32_t count, BeamEntry* entries) {
  for (int32_t i = threadIdx.x; i < count; i += blockDim.x)
    entries[i] = {places[i].log_prob, places[i].node, places[i].length, places[i].finished, 1.0f,
                  kNoToken,           BeamNode::kNone};
}

inline __device__ void write_places(const BeamEntry* entries, int32_t count, BeamPlace* places) {
  for (int32_t i = threadIdx.x; i < count; i += blockDim.x)
    places[i] = {entries[i].log_prob, entries[i].node, entries[i].length, entries[i].finished};
}

using BlockMask = uint16_t;  // a bit for each node in use
constexpr BlockMask kFullBlock = 0xFFFF;
static_assert(kBlockPositions == 16, "a mask has a bit for each node");

struct BeamTree {
  const BeamTrees& trees;
  const int query;
  BlockMask* masks;  // [kMostBeamBlocks], shared

  __device__ BeamNode& node(int32_t index) const { return trees.tree(query)[index]; }
  __device__ int32_t* path(int32_t index) const {
    return trees.path_slots + trees.path_begin(query, index);
  }
  // The node of a path at a position.
  __device__ int32_t on_path(int32_t index, int32_t position) const {
    return path(index)[position] - static_cast<int32_t>(trees.slot(query, 0));
  }
  __device__ int32_t child(int32_t index, int32_t token_id) const {
    int32_t child = node(index).first_child;
    while (child != BeamNode::kNone && node(child).token_id != token_id)
      child = node(child).next_sibling;
    return child;
  }

  // Copies the first `length` slots of a path to another path. Lanes stride over positions.
  __device__ void copy_path(int32_t from, int32_t length, int32_t to) const {
    copy_words(path(from), path(to), length);
  }

  // Threads stride over blocks.
  __device__ void read_masks() const {
    for (int32_t block = threadIdx.x; block < trees.block_count(); block += blockDim.x)
      masks[block] = static_cast<BlockMask>(trees.blocks(query)[block]);
  }
  __device__ void write_masks() const {
    for (int32_t block = threadIdx.x; block < trees.block_count(); block += blockDim.x)
      trees.blocks(query)[block] = masks[block];
  }

  // The first block that `fits`, or kNone. All lanes of a warp call.
  template <typename Fits>
  __device__ int32_t first_block(Fits fits) const {
    for (int32_t begin = 0; begin < trees.block_count(); begin += kWarp) {
      const int32_t block = begin + lane_index();
      const bool is = block < trees.block_count() && fits(masks[block]);
      const unsigned found = __ballot_sync(~0U, is);
      if (found) return begin + __ffs(static_cast<int>(found)) - 1;
    }
    return BeamNode::kNone;
  }

  // Takes a free node: in the parent's block, otherwise the first of an empty block, so that its
  // descendants fit there, otherwise any. All lanes of a warp call; some node must be free.
  __device__ int32_t take(int32_t parent) const {
    int32_t block = parent / kBlockPositions;
    if (masks[block] == kFullBlock) block = first_block([](BlockMask mask) { return mask == 0; });
    if (block == BeamNode::kNone)
      block = first_block([](BlockMask mask) { return mask != kFullBlock; });
    const int32_t place = __ffs(static_cast<int>(~masks[block] & kFullBlock)) - 1;
    __syncwarp();  // all have read the mask
    if (lane_index() == 0) masks[block] |= static_cast<BlockMask>(1 << place);
    __syncwarp();
    return block * kBlockPositions + place;
  }

  // Finds or adds the node of every entry that has a token. entry(i) for i < count is distinct in
  // node and token. All threads of the block call, and must synchronise before new nodes are found
  // as children. used_count is shared.
  template <typename Entry>
  __device__ void settle(int32_t count, Entry entry, int32_t& used_count) const {
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) {
      BeamEntry& mine = entry(i);
      mine.parent = BeamNode::kNone;
      if (mine.token == kNoToken) continue;
      const int32_t found = child(mine.node, mine.token);
      if (found == BeamNode::kNone) {
        mine.parent = mine.node;
      } else {
        mine.node = found;
      }
    }
    __syncthreads();
    if (warp_index() == 0)
      for (int32_t i = 0; i < count; ++i) {
        BeamEntry& mine = entry(i);
        if (mine.parent == BeamNode::kNone) continue;
        const int32_t taken = take(mine.parent);
        if (lane_index() != 0) continue;
        mine.node = taken;
        ++used_count;
      }
    __syncthreads();
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) begin_node(i, entry);
    const auto warp_count = static_cast<int32_t>(blockDim.x) / kWarp;
    for (int32_t i = warp_index(); i < count; i += warp_count) begin_path(entry(i));
    __syncthreads();
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) link_node(i, count, entry);
  }

  __device__ int32_t slot(int32_t index) const {
    return static_cast<int32_t>(trees.slot(query, index));
  }

  // Writes the path of a new node: its parent's, then its own slot. Lanes stride over positions.
  __device__ void begin_path(const BeamEntry& mine) const {
    if (mine.parent == BeamNode::kNone) return;
    const int32_t length = node(mine.parent).position + 1;
    copy_path(mine.parent, length, mine.node);
    if (lane_index() == 0) path(mine.node)[length] = slot(mine.node);
  }

  // Links new nodes as one thread would in the order of the entries: each before those of earlier
  // entries, and all before the parent's earlier children.
  template <typename Entry>
  __device__ void begin_node(int32_t i, Entry entry) const {
    const BeamEntry& mine = entry(i);
    if (mine.parent == BeamNode::kNone) return;
    const BeamNode& parent = node(mine.parent);
    int32_t sibling = parent.first_child;
    for (int32_t other = 0; other < i; ++other)
      if (entry(other).parent == mine.parent) sibling = entry(other).node;
    node(mine.node) = {mine.token, parent.position + 1, BeamNode::kNone, sibling, 0, 0};
  }
  template <typename Entry>
  __device__ void link_node(int32_t i, int32_t count, Entry entry) const {
    const BeamEntry& mine = entry(i);
    if (mine.parent == BeamNode::kNone) return;
    for (int32_t other = i + 1; other < count; ++other)
      if (entry(other).parent == mine.parent) return;
    node(mine.parent).first_child = mine.node;
  }

  // Frees the nodes that are neither before nor after a hypothesis. Live hypotheses are all
  // `length` tokens long. entry(i) for i < count. All threads of the block call; used_count is
  // shared.
  template <typename Entry>
  __device__ void collect(int32_t count, Entry entry, int32_t length, int32_t& used_count) const {
    if (threadIdx.x == 0) used_count = 0;
    for (int32_t i = threadIdx.x; i < trees.node_count; i += blockDim.x)
      if (masks[i / kBlockPositions] != 0) node(i).kept = kDrop;
    __syncthreads();
    for (int32_t c = threadIdx.x; c < count * (length + 1); c += blockDim.x) {
      const BeamEntry& mine = entry(c / (length + 1));
      const int32_t position = c % (length + 1);
      if (position > node(mine.node).position) continue;
      const bool ends = position == length && !mine.finished;
      // Hypotheses share nodes.
      const int32_t kept = ends ? kEnd : kBefore;
      atomicMax(&node(on_path(mine.node, position)).kept, kept);
    }
    __syncthreads();
    for (int32_t block = threadIdx.x; block < trees.block_count(); block += blockDim.x) {
      unsigned mask = 0;
      for (int32_t i = 0; i < kBlockPositions; ++i)
        if (masks[block] >> i & 1)
          mask |= static_cast<unsigned>(is_kept(block * kBlockPositions + i, length)) << i;
      masks[block] = static_cast<BlockMask>(mask);
      atomicAdd(&used_count, static_cast<int32_t>(__popc(mask)));
    }
    __syncthreads();
  }

 private:
  enum Kept : int32_t { kDrop, kBefore, kEnd };  // kEnd: the last token of a live hypothesis

  __device__ bool is_kept(int32_t index, int32_t length) const {
    if (node(index).kept != kDrop) return true;
    return node(index).position > length && node(on_path(index, length)).kept == kEnd;
  }
};

// Writes the token ids of all hypotheses by rank. Threads stride over tokens.
inline __device__ void write_token_ids(const BeamAnswers& answers, const BeamTree& tree,
                                       const BeamEntry* entries, int32_t count) {
  const auto capacity = static_cast<int32_t>(answers.capacity);
  for (int32_t c = threadIdx.x; c < count * capacity; c += blockDim.x) {
    const BeamEntry& entry = entries[c / capacity];
    const int32_t position = c % capacity;
    if (position == 0 || position > tree.node(entry.node).position) continue;
    answers.token_ids(tree.query, c / capacity)[position - 1] =
        tree.node(tree.on_path(entry.node, position)).token_id;
  }
}

// Begins the tree of a new query: BOS, planned. All threads of its block call.
inline __device__ void begin_tree(const BeamRows& rows, int query, int32_t bos_id) {
  BeamAnswer& answer = rows.answers.head(query);
  const bool begun = answer.used_count > 0;
  __syncthreads();
  if (begun) return;
  const BeamTrees& trees = rows.trees;
  for (int32_t block = threadIdx.x; block < trees.block_count(); block += blockDim.x)
    trees.blocks(query)[block] = block == 0;
  if (threadIdx.x == 0) {
    trees.tree(query)[0] = {bos_id, 0, BeamNode::kNone, BeamNode::kNone, 0, 0};
    trees.path_slots[trees.path_begin(query, 0)] = static_cast<int32_t>(trees.slot(query, 0));
    trees.plan(query)[0] = 0;
    answer.used_count = 1;
  }
  __syncthreads();
}

}  // namespace molspec::cuda
