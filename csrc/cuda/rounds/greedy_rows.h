// Greedy decoding on a device, with one row of state for each query. It is the search of
// search/sequences.cpp, split into the operators of a round:
//
//   propose_tree     drafts after the last token   (or none: `drafts` stays unchanged)
//   stage_nodes      the last token and its drafts as nodes of the next decoder_step
//   decoder_step
//   verify_nodes     emits the confirmed drafts, and the model's next token
//
// The host begins a row by writing its answer's head, and reads the answers from time to time.

#pragma once

#include <cuda_runtime.h>

#include "common/answers.h"
#include "common/limits.h"
#include "drafting/guess_rows.h"
#include "ops/steps.h"

namespace molspec::cuda {

// The data of guesses on a device, as tensors of rows (drafting/guess_rows.h). The host makes
// `tables` from the model once, and a query's copy text when it starts; the states of paths stay on
// the device.
struct GuessTensors {
  const uint8_t* tables;  // GuessTables
  uint8_t* texts;         // [query, text_stride], GuessTextRow
  uint8_t* states;        // [query, state_count, state_stride]
  int64_t text_stride, state_count, state_stride;

  MOLSPEC_ANYWHERE uint8_t* text(int64_t query) const { return texts + query * text_stride; }
  MOLSPEC_ANYWHERE uint8_t* state(int64_t query, int64_t index) const {
    return states + (query * state_count + index) * state_stride;
  }
};

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
  // The last token, or BOS: drafts follow it.
  MOLSPEC_ANYWHERE int32_t last_token(int64_t query, int32_t bos_id) const {
    const int32_t count = head(query).token_count;
    return count ? token_ids(query)[count - 1] : bos_id;
  }
};

// The drafts of every query as a tree (drafting/draft_tree.h): row q has the number of nodes, their
// token ids and their parents, -1 for the last token. Parents precede their children.
struct DraftRows {
  int32_t* data;  // [query, 1 + 2 * limit]
  int64_t limit;  // nodes of a tree

  MOLSPEC_ANYWHERE int32_t& count(int64_t query) const { return data[query * (1 + 2 * limit)]; }
  MOLSPEC_ANYWHERE int32_t* token_ids(int64_t query) const { return &count(query) + 1; }
  MOLSPEC_ANYWHERE int32_t* parents(int64_t query) const { return token_ids(query) + limit; }
};

// The cache slots of a query as a permutation: first those of its path, in the order of the path,
// then the free ones. Node i of a step takes the i-th free one.
struct SlotRows {
  int32_t* data;  // [query, count]
  int64_t count;  // at least the capacity of the answers and every node of a step

  MOLSPEC_ANYWHERE int32_t* row(int64_t query) const { return data + query * count; }
};

// propose_tree: best-first expansion of a guess (drafting/draft_tree.h). A query has a guess state
// for its emitted tokens, then states of nodes and of candidate nodes. A device expands several
// paths in a turn: paths that are not expanded after the last turn end there. With as many turns as
// nodes the tree is the host's.
struct ProposeTreeProblem {
  GreedyAnswers answers;
  DraftRows drafts;    // written: rows of live queries; `limit` is the node budget
  GuessTensors guess;  // written: heads of texts, and states
  int32_t max_depth;
  int32_t max_turns;
  float min_log_prob;  // of a drafted path
};
void propose_tree(const ProposeTreeProblem& problem, cudaStream_t stream);

// stage_nodes: the last token of every live query and the drafts after it -> nodes of the next
// decoder_step, query by query, and their paths. Gaps follow.
//
// A draft at max_length is a gap too. If a query does not fit, it and those after it wait for a
// later round.
struct StageNodesProblem {
  GreedyAnswers answers;  // written: first_node, and the counts of a step
  SlotRows slots;
  DraftRows drafts;
  Node* nodes;  // [node_count], written
  int64_t node_count;
  int32_t* path_slots;  // [node_count, capacity of an answer], written
  int32_t bos_id;
};
void stage_nodes(const StageNodesProblem& problem, cudaStream_t stream);

// verify_nodes: log-probs of the staged nodes -> tokens. From the last token on, it emits the
// model's argmax (the lowest id among equals) while that was drafted, and one token more. The slots
// of the confirmed drafts join the path's.
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
