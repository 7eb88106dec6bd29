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

#include "common/answers.h"
#include "ops/refuse.h"

namespace molspec {

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

// Types and shapes; what they hold is the device's own.
GreedyAnswers greedy_answers_check(const Tensor& answers);
DraftRows draft_rows_check(const Tensor& drafts, const GreedyAnswers& answers);
SlotRows slot_rows_check(const Tensor& slots, const GreedyAnswers& answers,
                         const DraftRows& drafts);

}  // namespace molspec
