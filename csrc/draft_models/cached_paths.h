// Paths of many queries in the cache of a draft model. A query has its row until it ends. Evaluated
// nodes of its paths stay in the cache; if the verified path differs from the drafted one, drafting
// resumes after their common prefix. If a call failed, the next one evaluates all nodes anew.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/sequence.h"

namespace molspec {

class CachedPaths {
 public:
  CachedPaths(const CachedPaths&) = delete;
  CachedPaths& operator=(const CachedPaths&) = delete;

  // Throw std::invalid_argument for a row that does not exist, is taken (start) or free (release).
  void start(int32_t row, const std::vector<int32_t>& source_ids);
  void release(int32_t row);

  // Requests at most `counts` tokens after each path; the path's sampler, if any, chooses them.
  // Throws std::invalid_argument for a free row, an id outside the vocabulary, and if there is not
  // one count a path.
  void request(const std::vector<Path>& paths, const std::vector<int32_t>& counts);
  // A tree after each requested path.
  const std::vector<DraftTree>& trees() const { return trees_; }

  const TokenTree& tree() const { return tree_; }
  const GuessModel& model() const { return *model_; }

 protected:
  // Throws std::invalid_argument for a row_count below 1.
  CachedPaths(int32_t row_count, std::shared_ptr<const GuessModel> model);
  ~CachedPaths() = default;

  struct Query {
    QueryNodes nodes;
    int32_t root = TokenTree::kNone;  // BOS, from the first request on
    bool live = false;
  };
  // A requested path. While it is live:
  //   sequence.token_ids   the path, then the tokens that were drafted after it
  //   sequence.node        the node of the last of them, of BOS if there is none
  //   pending              the nodes of the path that no step has evaluated, parents first
  // Between plan() and advance(), `pending` is empty and all those nodes are staged.
  struct PathState {
    Sequence sequence;
    int32_t row = 0, count = 0;  // tokens to draft
    size_t begin = 0;            // tokens of the requested path
    std::vector<int32_t> pending;
    int32_t last = DraftTree::kRoot;  // of the tree's chain
  };
  Query& query(const PathState& state) { return rows_[state.row]; }
  // Stages the nodes of a live path that are not evaluated yet, its last node, and `drafts`, at
  // most as many tokens as are requested.
  void stage(PathState& state, const DraftTree& drafts);
  // Throws std::invalid_argument if nothing was staged for advance().
  void check_staged() const;
  // Frees the queries' nodes except those of the requested paths and, with `and_after`, the nodes
  // after them.
  void keep(bool and_after);
  void finish_round(bool done);

  std::shared_ptr<const GuessModel> model_;
  TokenTree tree_;
  std::vector<Query> rows_;
  std::vector<PathState> states_;
  std::vector<DraftTree> trees_;  // by requested path

 private:
  // Frees all nodes: a step that failed left some unevaluated.
  void forget();
  // The deepest node of a path that exists already.
  int32_t known(const Query& query, const std::vector<int32_t>& token_ids) const;
  // Adds the nodes of a path after `node`.
  void add_rest(Query& query, PathState& state, int32_t node);

  bool unfinished_ = false;  // between request() and the last advance()
};

}  // namespace molspec
