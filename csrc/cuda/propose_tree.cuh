// propose_tree on the GPU: a warp a query.

#pragma once

#include "cuda/guess_tokens.cuh"
#include "cuda/kernels.h"

namespace molspec::cuda {

// A token that may become a node.
struct DraftEntry {
  float log_prob;  // of the path up to it
  int32_t token;   // kNoToken where there is none, or none any more
};

// The rows of a product query and the states of sixteen nodes of it.
constexpr int kStagedBytes = 20 * 1024;

struct TreeShared {
  GuessShared guess;
  alignas(16) uint8_t staged[kStagedBytes];
  DraftEntry entries[kMostTreeNodes * kMostTreeNodes];  // behind the last token, behind node 0, ...
  int32_t depths[kMostTreeNodes];
};

// All lanes follow the tree as it grows; they stride over tokens and entries.
struct TreeProposer {
  const ProposeTreeProblem& problem;
  const int query;
  const Guesser guesser;
  TreeShared& shared;
  uint8_t* const staged_states;  // of root and nodes, or null: they are where the rows are
  const int64_t state_size;

  __device__ int32_t budget() const { return static_cast<int32_t>(problem.drafts.limit); }
  __device__ GuessStateView state(int64_t index) const {
    return guess_state_of(problem.guess.state(query, index), guesser.rules.text);
  }
  // Of node -1: of the root.
  __device__ GuessStateView node_state(int32_t node) const {
    if (!staged_states) return state(2 + node);
    return guess_state_of(staged_states + (node + 1) * state_size, guesser.rules.text);
  }

  // The state behind all that has been emitted.
  __device__ GuessStateView root(GuessTextRow::Head& head) const {
    int32_t at = head.root, absorbed = head.absorbed;
    const int32_t count = problem.answers.head(query).token_count;
    if (absorbed == GuessTextRow::kFresh) {
      absorbed = 0;
      guesser.start(state(at));
    }
    for (; absorbed < count; ++absorbed, at = 1 - at)
      guesser.advance(state(at), problem.answers.token_ids(query)[absorbed], state(1 - at));
    guesser.team.sync();  // all have read the head
    if (guesser.team.leads()) {
      head.root = at;
      head.absorbed = absorbed;
    }
    return staged(state(at));
  }

  // The root's state where those of the nodes are.
  __device__ GuessStateView staged(const GuessStateView& root) const {
    if (!staged_states) return root;
    const GuessStateView copy = node_state(-1);
    guesser.team.copy(reinterpret_cast<const uint8_t*>(root.place),
                      reinterpret_cast<uint8_t*>(copy.place),
                      static_cast<int32_t>(guess_state_size(guesser.rules.text.size,
                                                            guesser.rules.text.source_length)));
    guesser.team.sync();
    return copy;
  }

  // The likeliest tokens behind a state as entries [parent].
  __device__ void expand(const GuessStateView& from, int32_t parent, float log_prob) const {
    DraftEntry* entries = shared.entries + parent * budget();
    for (int32_t i = lane_index(); i < budget(); i += kWarp)
      entries[i].token = SymbolTable::kNoToken;
    guesser.team.sync();
    guesser.tokens(from, [&](int32_t token, float token_log_prob, int32_t place) {
      const float path = log_prob + token_log_prob;
      if (token != guesser.rules.symbols.special.eos && place < budget() &&
          path >= problem.min_log_prob)
        entries[place] = {path, token};
    });
  }

  // Whether entry `left` becomes a node before `right`: the likelier one, then that of the earlier
  // parent, then the lower id.
  __device__ bool before(int32_t left, int32_t right) const {
    if (left < 0 || right < 0) return left >= 0;
    const DraftEntry &one = shared.entries[left], &other = shared.entries[right];
    if (one.log_prob != other.log_prob) return one.log_prob > other.log_prob;
    if (left / budget() != right / budget()) return left < right;
    return one.token < other.token;
  }

  // The best of the first `count` entries, or -1.
  __device__ int32_t best_entry(int32_t count) const {
    int32_t best = -1;
    for (int32_t i = lane_index(); i < count; i += kWarp)
      if (shared.entries[i].token != SymbolTable::kNoToken && before(i, best)) best = i;
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const int32_t other = __shfl_xor_sync(~0U, best, distance);
      if (before(other, best)) best = other;
    }
    return best;
  }

  // Returns the number of nodes.
  __device__ int32_t grow(const GuessStateView& root) const {
    expand(root, 0, 0.0f);
    for (int32_t node = 0; node < budget(); ++node) {
      const int32_t best = best_entry((node + 1) * budget());
      if (best < 0) return node;
      const DraftEntry entry = shared.entries[best];
      const int32_t parent = best / budget() - 1;
      const int32_t depth = parent < 0 ? 1 : shared.depths[parent] + 1;
      guesser.team.sync();
      if (guesser.team.leads()) {
        problem.drafts.token_ids(query)[node] = entry.token;
        problem.drafts.parents(query)[node] = parent;
        shared.entries[best].token = SymbolTable::kNoToken;
        shared.depths[node] = depth;
      }
      if (node + 1 == budget()) break;
      if (depth == problem.max_depth) {
        for (int32_t i = lane_index(); i < budget(); i += kWarp)
          shared.entries[(node + 1) * budget() + i].token = SymbolTable::kNoToken;
        guesser.team.sync();
        continue;
      }
      const GuessStateView child = node_state(node);
      guesser.advance(parent < 0 ? root : node_state(parent), entry.token, child);
      expand(child, node + 1, entry.log_prob);
    }
    return budget();
  }
};

// A row that does not fit what it says it holds gets no drafts.
inline __global__ void propose_tree_kernel(ProposeTreeProblem problem) {
  __shared__ TreeShared shared;
  const int query = blockIdx.x;
  if (problem.answers.head(query).state != GreedyAnswer::kLive) return;
  const uint8_t* tables = problem.guess.tables;
  uint8_t* text = problem.guess.text(query);
  int32_t count = 0;
  if (Guesser::fits(tables, text, problem.guess.text_stride, problem.guess.state_stride)) {
    Guesser guesser = Guesser::on(tables, text, shared.guess);
    Stage stage{shared.staged, kStagedBytes};
    guesser.keep(stage);
    const GuessText& copied = guesser.rules.text;
    const int64_t size = (guess_state_size(copied.size, copied.source_length) + 15) / 16 * 16;
    uint8_t* states = stage.take(problem.drafts.limit * size);
    const TreeProposer proposer{problem, query, guesser, shared, states, size};
    count = proposer.grow(proposer.root(*reinterpret_cast<GuessTextRow::Head*>(text)));
  }
  if (lane_index() == 0) problem.drafts.count(query) = count;
}

}  // namespace molspec::cuda
