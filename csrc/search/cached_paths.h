// Paths of many queries in the cache of a model that drafts for another one. A query's row stays as
// long as the query does: what was evaluated of its paths is kept, and a path that the other model
// took elsewhere goes on from where the two part.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "search/rejection.h"
#include "search/sequence_group.h"

namespace molspec {

class CachedPaths {
 public:
  CachedPaths(const CachedPaths&) = delete;
  CachedPaths& operator=(const CachedPaths&) = delete;

  // Throw std::invalid_argument for a row that is taken, of none, or free.
  void start(int32_t row, const std::vector<int32_t>& source_ids);
  void release(int32_t row);

  // Asks for at most `counts` tokens after each path, which a sampler chooses where a path has
  // one. Throws std::invalid_argument for a row that is free, an id outside of the vocabulary, and
  // for other than one count a path.
  void ask(const std::vector<Path>& paths, const std::vector<int32_t>& counts);
  // A tree after each requested path.
  const std::vector<DraftTree>& trees() const { return trees_; }

  const TokenTree& tree() const { return tree_; }
  const GuessModel& model() const { return *model_; }

 protected:
  // Throws std::invalid_argument for a row_count below 1.
  CachedPaths(int32_t row_count, std::shared_ptr<const GuessModel> model);
  ~CachedPaths() = default;

  struct Query {
    std::unique_ptr<SequenceGroup> nodes;
    int32_t root = TokenTree::kNone;
    int32_t begin = 0;  // of what is staged of it
    bool live = false;
  };
  struct PathState {
    Sequence sequence;
    int32_t row = 0, count = 0;
    size_t begin = 0;              // tokens that were given
    std::vector<int32_t> pending;  // of them: nodes to evaluate
    std::optional<Sampler> sampler;
    DraftTree drafts;                 // what stands after the path in this round
    int32_t last = DraftTree::kRoot;  // of the tree's chain
  };
  // Chooses the tokens after a path: what its sampler draws, or the likeliest. Notes in `tree`
  // what was drawn to be refused by its probability.
  class Chooser {
   public:
    Chooser(const PathState& state, const SpecialIds& special, DraftTree& tree);
    Drawn operator()(const float* log_probs, int32_t vocab_size, uint32_t position);

   private:
    const PathState& state_;
    DraftTree& tree_;
    std::optional<Rejection> rejection_;
  };

  Query& query(const PathState& state) { return rows_[static_cast<size_t>(state.row)]; }
  // What every round begins with: stages the nodes of paths that are not evaluated yet, and the
  // last one of each. Then what stands after, then submit().
  void stage();
  void submit();

  std::shared_ptr<const GuessModel> model_;
  TokenTree tree_;
  std::vector<Query> rows_;
  std::vector<PathState> states_;
  std::vector<DraftTree> trees_;  // by requested path

 private:
  Query& live_row(int32_t row);
  // The deepest node that is known of a path.
  int32_t known(const Query& query, const std::vector<int32_t>& token_ids) const;
  void add_rest(Query& query, PathState& state, int32_t node);
};

}  // namespace molspec
