// Greedy decoding that stays on a device: what is kept of every query, a row each. It is the search
// of search/sequences.cpp, cut into the operators of a round:
//
//   propose_windows or propose_tree
//                    drafts after the last token   (or none: `drafts` stays as it is)
//   stage_nodes      the last token and its drafts as nodes of the next decoder_step
//   decoder_step
//   verify_nodes     emits what the model confirms, and its own next token
//
// The host begins a row by writing its answer's head, and looks at the answers once in a while.

#pragma once

#include <cuda_runtime.h>

#include "common/answers.h"
#include "common/limits.h"
#include "cuda/rounds.h"

namespace molspec::cuda {

struct GreedyAnswers {
  uint8_t* data;                          // [query, stride]
  int64_t query_count, stride, capacity;  // capacity: tokens that a row has room for

  MOLSPEC_ANYWHERE GreedyAnswer& head(int64_t query) const {
    return *reinterpret_cast<GreedyAnswer*>(data + query * stride);
  }
  MOLSPEC_ANYWHERE int32_t* token_ids(int64_t query) const {
    return reinterpret_cast<int32_t*>(data + query * stride + sizeof(GreedyAnswer));
  }
  MOLSPEC_ANYWHERE int32_t max_length(int64_t query) const {
    const int32_t requested = head(query).max_length;
    return requested < capacity ? requested : static_cast<int32_t>(capacity);
  }
  // Of the node whose drafts are looked for: the last token, or BOS.
  MOLSPEC_ANYWHERE int32_t last_token(int64_t query, int32_t bos_id) const {
    const int32_t count = head(query).token_count;
    return count ? token_ids(query)[count - 1] : bos_id;
  }
};

// The drafts of every query as a tree (drafting/draft_tree.h): row q is its number of nodes, their
// token ids and their parents, -1 where that is the last token. Parents precede their children.
struct DraftRows {
  int32_t* data;  // [query, 1 + 2 * limit]
  int64_t limit;  // nodes of a tree

  MOLSPEC_ANYWHERE int32_t& count(int64_t query) const { return data[query * (1 + 2 * limit)]; }
  MOLSPEC_ANYWHERE int32_t* token_ids(int64_t query) const { return &count(query) + 1; }
  MOLSPEC_ANYWHERE int32_t* parents(int64_t query) const { return token_ids(query) + limit; }
};

// The slots of the cache that a query owns, as a permutation: those of its path first, in the order
// of the path, then the free ones. Node i of a step takes the i-th free one.
struct SlotRows {
  int32_t* data;  // [query, count]
  int64_t count;  // at least the capacity of the answers and every node of a step

  MOLSPEC_ANYWHERE int32_t* row(int64_t query) const { return data + query * count; }
};

// propose_windows: of the trees that a query's windows make, the one after its last token.
struct ProposeWindowsProblem {
  GreedyAnswers answers;
  DraftRows drafts;  // written: rows of live queries
  WindowRows windows;
  int32_t bos_id;
};
void propose_windows(const ProposeWindowsProblem& problem, cudaStream_t stream);

// propose_tree: best-first expansion of a guess, as drafting/draft_tree.h says. A query has a guess
// state for its emitted tokens, then those that the device keeps of nodes and of what may become
// one. A device expands several paths in a turn: what nobody has expanded after the last turn gets
// no nodes after it. With a turn a node a tree is the host's.
struct ProposeTreeProblem {
  GreedyAnswers answers;
  DraftRows drafts;    // written: rows of live queries; `limit` is the node budget
  GuessTensors guess;  // written: heads of texts, and states
  int32_t max_depth;
  int32_t max_turns;
  float min_log_prob;  // of a path that is drafted
};
void propose_tree(const ProposeTreeProblem& problem, cudaStream_t stream);

// stage_nodes: the last token of every live query and the drafts after it -> nodes of the next
// decoder_step, query by query, and their paths. What follows is gaps.
//
// A draft at whose place no token may follow any more is a gap too. A query that finds no room, and
// those after it, wait for a later round.
struct StageNodesProblem {
  GreedyAnswers answers;  // written: first_node, and what is counted of a step
  SlotRows slots;
  DraftRows drafts;
  Node* nodes;  // [node_count], written
  int64_t node_count;
  int32_t* path_slots;  // [node_count, capacity of an answer], written
  int32_t bos_id;
};
void stage_nodes(const StageNodesProblem& problem, cudaStream_t stream);

// verify_nodes: log-probs of the staged nodes -> tokens. From the last token on, the model's argmax
// (the lowest id among equals) is emitted, for as long as it had been drafted and once more. The
// slots of what was confirmed become the path's.
struct VerifyNodesProblem {
  GreedyAnswers answers;  // written
  SlotRows slots;         // written
  DraftRows drafts;
  const float* log_probs;  // [node, vocab_size]
  int64_t node_count, vocab_size;
  int32_t eos_id;
};
void verify_nodes(const VerifyNodesProblem& problem, cudaStream_t stream);

}  // namespace molspec::cuda
