// The searches of all live queries, each with its own row and settings, on one token tree. One
// decoder step evaluates the nodes that all of them staged. No search's result depends on the
// others.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "search/beam.h"
#include "search/draft_ledger.h"
#include "search/search.h"

namespace molspec {

class Batch {
 public:
  // Throws std::invalid_argument if row_count is below 1.
  Batch(int32_t row_count, std::shared_ptr<const GuessModel> model);

  // Begins a query in a free row. source_ids are in the target's vocabulary, without BOS and EOS;
  // a ForcedSpec takes the targets instead. query_key identifies the query, for samples. Its
  // answers begin with the tokens of `prefix`. Throws std::invalid_argument for a row that is
  // taken, for ids outside the vocabulary, and for a prefix that ends, is too long or has a
  // ForcedSpec.
  void start(int32_t row, const SearchSpec& spec, const std::vector<int32_t>& source_ids,
             uint64_t query_key = 0, const std::vector<int32_t>& prefix = {});
  // Frees the row of a live query. Throws std::invalid_argument if the row is free.
  void cancel(int32_t row);

  // The hypotheses that wait for drafts of an external drafter, row by row.
  std::vector<Path> paths() const;
  // Stages the nodes of the next step; `proposed` has one tree for each path of paths(). Throws
  // std::invalid_argument for another number of trees and for a tree of another vocabulary, before
  // it changes anything.
  void plan(const std::vector<AdmittedTree>& proposed);
  // Reads log_probs [staged node, vocab_size], returns the finished queries and frees their rows.
  // Throws std::invalid_argument if nothing is staged.
  std::vector<Decoded> advance(const float* log_probs, int32_t vocab_size);

  int32_t live_count() const { return live_count_; }
  const TokenTree& tree() const { return tree_; }
  const GuessModel& model() const { return *model_; }

 private:
  struct Query {
    std::optional<SearchSpec> spec;
    std::unique_ptr<Search> search;  // reused by the next query with an equal spec
    bool live = false;
  };
  void check_prefix(const SearchSpec& spec, const std::vector<int32_t>& prefix) const;
  void free(int32_t index);
  Decoded take(Query& query) const;
  // The log-probs [staged node, vocab_size] as settings change them. Stores those that answers
  // tell.
  const float* by_settings(const float* log_probs, int32_t vocab_size);
  std::vector<float> token_log_probs(const Hypothesis& hypothesis) const;

  std::shared_ptr<const GuessModel> model_;
  TokenTree tree_;
  BeamNotes notes_;
  DraftLedger ledger_;
  std::vector<Query> rows_;
  std::vector<std::vector<float>> stored_;  // log-probs after evaluated nodes, by slot
  std::vector<float> changed_;              // scratch
  int32_t live_count_ = 0;
};

}  // namespace molspec
