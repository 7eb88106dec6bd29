// The searches of the queries under way, each in its row and each of its own spec, on one token
// tree: what is staged by all of them is one step of the decoder. Nothing that a search finds
// depends on the others.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/beam.h"
#include "search/search.h"

namespace molspec {

class Batch {
 public:
  // Throws std::invalid_argument where row_count is below 1.
  Batch(int32_t row_count, std::shared_ptr<const GuessModel> model);

  // Begins a query in a free row. source_ids in the target's vocabulary, without BOS and EOS; of a
  // ForcedSpec its target. query_key tells it from others where something is drawn. Throws
  // std::invalid_argument for a row that is taken and for ids outside of the vocabulary.
  void start(int32_t row, std::shared_ptr<SearchSpec> spec, const std::vector<int32_t>& source_ids,
             uint64_t query_key = 0);
  // Frees the row of a query that is not done. Throws std::invalid_argument where there is none.
  void cancel(int32_t row);

  // The hypotheses that wait for drafts from outside, row by row.
  std::vector<Path> paths() const;
  // Stages the nodes of the next step; `proposed` has a tree for each of paths(). Throws
  // std::invalid_argument for another number and for a tree that is none (`admitted`), before
  // anything is staged.
  void plan(const std::vector<DraftTree>& proposed);
  // Reads log_probs [staged node, vocab_size] and returns the queries that are done; their rows are
  // free again. Throws std::invalid_argument where nothing is staged.
  std::vector<Decoded> advance(const float* log_probs, int32_t vocab_size);

  int32_t live_count() const { return live_count_; }
  const TokenTree& tree() const { return tree_; }
  const GuessModel& model() const { return *model_; }

 private:
  struct Query {
    std::shared_ptr<SearchSpec> spec;
    std::unique_ptr<Search> search;  // kept for the next query of the same spec
    size_t staged_count = 0;
    bool live = false;
  };
  Query& row(int32_t index);
  void free(int32_t index);

  std::shared_ptr<const GuessModel> model_;
  TokenTree tree_;
  BeamNotes notes_;
  std::vector<Query> rows_;
  std::vector<DraftTree> proposed_;  // what is planned points into it
  int32_t live_count_ = 0;
};

}  // namespace molspec
