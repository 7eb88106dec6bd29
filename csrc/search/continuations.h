// Continues paths of many queries by a few tokens: a model that drafts for another one, with a
// cache of its own. A query's row stays as long as the query does: what was evaluated of its paths
// is kept, and a path that the other model took elsewhere goes on from where the two part.
//
// A call is ask() and then rounds, as those of Batch: paths(), plan(), a step of the decoder,
// advance(), until it says that all are done; then trees().

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "search/lanes.h"

namespace molspec {

class Continuations {
 public:
  // drafts: by whom the drafting model itself drafts. width: the likeliest tokens that a tree has
  // of each place beside the one that goes on. Throws std::invalid_argument for counts below 1.
  Continuations(int32_t row_count, std::shared_ptr<const GuessModel> model,
                const DrafterOptions& drafts, int32_t width);

  // Throw std::invalid_argument for a row that is taken, of none, or free.
  void start(int32_t row, const std::vector<int32_t>& source_ids);
  void release(int32_t row);

  // Asks for paths to be continued by at most `counts` tokens each, which a sampler chooses where a
  // path has one; the argmax does elsewhere. Throws std::invalid_argument for a row that is free,
  // an id outside of the vocabulary, and for other than one count a path.
  void ask(const std::vector<Path>& paths, const std::vector<int32_t>& counts);
  std::vector<Path> paths() const;
  void plan(const std::vector<DraftTree>& proposed);
  // Reads log_probs [staged node, vocab_size]; true where all are done.
  bool advance(const float* log_probs, int32_t vocab_size);
  // A chain behind each path, with the other likely tokens of its places.
  const std::vector<DraftTree>& trees() const { return trees_; }

  const TokenTree& tree() const { return tree_; }
  const GuessModel& model() const { return *model_; }

 private:
  struct Query {
    std::unique_ptr<Lanes> nodes;
    std::unique_ptr<Drafter> drafter;
    int32_t root = TokenTree::kNone;
    int32_t begin = 0;  // of what is staged of it
    bool live = false;
  };
  struct Asked {
    Lane lane;
    int32_t row = 0, count = 0;
    size_t begin = 0;              // tokens that were given
    std::vector<int32_t> pending;  // of them: nodes to evaluate
    std::optional<Sampler> sampler;
    DraftTree drafts;                 // by the drafting model's own drafter, in this round
    int32_t last = DraftTree::kRoot;  // of the tree's chain
  };
  Query& live_row(int32_t row);
  // The deepest node that is known of a path.
  int32_t known(const Query& query, const std::vector<int32_t>& token_ids) const;
  void add_rest(Query& query, Asked& asked, int32_t node);
  void note(Asked& asked, DraftTree& tree, const float* log_probs, int32_t vocab_size);

  std::shared_ptr<const GuessModel> model_;
  DrafterOptions drafts_;
  int32_t width_;
  TokenTree tree_;
  std::vector<Query> rows_;
  std::vector<Asked> asked_;
  std::vector<DraftTree> trees_;      // by path that was asked
  std::vector<Candidate> likeliest_;  // scratch
};

}  // namespace molspec
