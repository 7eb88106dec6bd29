// Greedy decoding, speculative or not: Andronov et al., J. Cheminform. 2025, "Speculative greedy
// decoding", with drafts merged into one tree. Lossless: every emitted token is the model's own
// argmax (the lowest id among equals), whatever the drafter proposed.
//
// A round is plan() -> one decoder_step over staged() -> advance(). Each round verifies the drafts
// behind the last emitted token; the accepted ones and the model's next token are emitted.

#pragma once

#include <memory>
#include <vector>

#include "drafting/drafter.h"
#include "search/decoded.h"
#include "search/token_tree.h"

namespace molspec {

class GreedySearch {
 public:
  // Throws std::invalid_argument where query_count or max_length is below 1.
  GreedySearch(std::shared_ptr<const DrafterFactory> drafters, int32_t query_count,
               int32_t max_length);

  // Begins a query in a free row of the batch. source_ids without BOS and EOS. At most max_length
  // tokens are emitted, EOS counted.
  void start(int32_t query, const std::vector<int32_t>& source_ids);
  // Stages the pending token of every live query, and drafts behind it.
  void plan();
  // Reads log_probs [staged node, vocab_size] and appends queries that are done to `done`; their
  // rows are free again.
  void advance(const float* log_probs, int32_t vocab_size, std::vector<Decoded>& done);

  const std::shared_ptr<const DrafterFactory>& drafters() const { return drafters_; }
  int32_t max_length() const { return max_length_; }
  const TokenTree& tree() const { return tree_; }
  const TokenRoles& roles() const { return drafters_->model().roles(); }
  int32_t live_count() const { return live_count_; }

 private:
  struct Query {
    std::unique_ptr<Drafter> drafter;
    bool live = false;
    std::vector<int32_t> slots;  // staged: the last emitted token, then the drafts behind it
    Decoded decoded;
  };
  void plan_query(int32_t index, Query& query);
  // Emits tokens; returns whether the query is done.
  bool verify(Query& query, const float* log_probs, int32_t vocab_size);
  bool emit(Query& query, int32_t token_id, float log_prob);
  // Gives back the drafts that are not on path_ and puts the last emitted token behind it.
  void keep_path(int32_t index, Query& query);

  std::shared_ptr<const DrafterFactory> drafters_;
  int32_t max_length_;
  TokenTree tree_;
  std::vector<Query> queries_;
  int32_t live_count_ = 0;
  // Of the query at hand.
  DraftTree drafts_;
  std::vector<int32_t> draft_slots_;  // by draft
  std::vector<int32_t> path_;         // evaluated nodes that the model confirmed
};

}  // namespace molspec
