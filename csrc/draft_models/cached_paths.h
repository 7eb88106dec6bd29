// Paths of many queries in the cache of a draft model. A query has its row until it ends. Evaluated
// nodes of its paths stay in the cache; if the verified path differs from the drafted one, drafting
// resumes after their common prefix. If a call failed, the next one evaluates all nodes anew.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/require.h"
#include "search/rejection.h"
#include "search/sequence_group.h"

namespace molspec {

class CachedPaths {
 public:
  CachedPaths(const CachedPaths&) = delete;
  CachedPaths& operator=(const CachedPaths&) = delete;

  // Throw std::invalid_argument for a row that does not exist, is taken (start) or free (release).
  void start(int32_t row, const std::vector<int32_t>& source_ids) {
    Query& query = checked_row(row, false);
    model_->roles().check_tokens(source_ids);
    if (!query.nodes)
      query.nodes = std::make_unique<SequenceGroup>(Row{row, &tree_, nullptr, model_});
    query.root = TokenTree::kNone;
    query.live = true;
  }
  void release(int32_t row) {
    checked_row(row, true).live = false;
    tree_.clear(row);
  }

  // Requests at most `counts` tokens after each path; the path's sampler, if any, chooses them.
  // Throws std::invalid_argument for a free row, an id outside the vocabulary, and if there is not
  // one count a path.
  void request(const std::vector<Path>& paths, const std::vector<int32_t>& counts) {
    if (paths.size() != counts.size())
      throw_invalid("counts has ", counts.size(), " items: expected one a path");
    tree_.clear_staged();
    states_.clear();
    trees_.assign(paths.size(), {});
    if (unfinished_) forget();
    for (size_t i = 0; i < paths.size(); ++i) {
      Query& query = checked_row(paths[i].row, true);
      const std::vector<int32_t>& token_ids = paths[i].token_ids;
      model_->roles().check_tokens(token_ids);
      PathState state;
      state.row = paths[i].row;
      state.count = counts[i];
      state.begin = token_ids.size();
      state.sampler = paths[i].sampler;
      state.sequence.live = counts[i] > 0;
      state.sequence.token_ids = token_ids;
      state.sequence.node = known(query, token_ids);
      states_.push_back(std::move(state));
    }
    keep(true);
    for (PathState& state : states_)
      if (state.sequence.live) {
        unfinished_ = true;
        add_rest(query(state), state, state.sequence.node);
      }
  }
  // A tree after each requested path.
  const std::vector<DraftTree>& trees() const { return trees_; }

  const TokenTree& tree() const { return tree_; }
  const GuessModel& model() const { return *model_; }

 protected:
  // Throws std::invalid_argument for a row_count below 1.
  CachedPaths(int32_t row_count, std::shared_ptr<const GuessModel> model)
      : model_(std::move(model)), tree_(std::max(row_count, 0)) {
    require(row_count >= 1, "row_count", row_count, "at least 1");
    rows_.resize(static_cast<size_t>(row_count));
  }
  ~CachedPaths() = default;

  struct Query {
    std::unique_ptr<SequenceGroup> nodes;
    int32_t root = TokenTree::kNone;
    int32_t begin = 0;  // of its staged nodes
    bool live = false;
  };
  struct PathState {
    Sequence sequence;
    int32_t row = 0, count = 0;
    size_t begin = 0;              // tokens of the requested path
    std::vector<int32_t> pending;  // their nodes that are not evaluated yet
    std::optional<Sampler> sampler;
    DraftTree drafts;                 // drafts after the path in this round
    int32_t last = DraftTree::kRoot;  // of the tree's chain
  };
  // Chooses the tokens after a path: drawn by its sampler, or the likeliest. For rejection sampling
  // it records in `tree` the distribution of each drawn token.
  class Chooser {
   public:
    Chooser(const PathState& state, const SpecialIds& special, DraftTree& tree)
        : state_(state), tree_(tree) {
      if (state.sampler && state.sampler->rejects())
        rejection_.emplace(*state.sampler, state.drafts, &special);
    }
    Drawn operator()(const float* log_probs, int32_t vocab_size, uint32_t position) {
      if (rejection_) {
        const Drawn drawn = rejection_->at(log_probs, vocab_size, position);
        if (drawn.log_prob == drawn.log_prob)
          tree_.drawn_from.insert(tree_.drawn_from.end(), rejection_->drawn_from().begin(),
                                  rejection_->drawn_from().end());
        return drawn;
      }
      if (state_.sampler) return state_.sampler->at(log_probs, vocab_size, position);
      return likeliest(log_probs, vocab_size);
    }

   private:
    const PathState& state_;
    DraftTree& tree_;
    std::optional<Rejection> rejection_;
  };

  Query& query(const PathState& state) { return rows_[state.row]; }
  // Begins a round: stages the nodes of the paths that are not evaluated yet, and the last node of
  // each. The subclass then stages the nodes after them and calls submit().
  void stage() {
    tree_.clear_staged();
    for (Query& query : rows_)
      if (query.live && query.nodes) query.nodes->unstage();
    for (PathState& state : states_) {
      if (!state.sequence.live) continue;
      SequenceGroup& nodes = *query(state).nodes;
      for (const int32_t node : state.pending) nodes.stage(node);
      state.pending.clear();
      nodes.stage(state.sequence.node);
    }
  }
  // Throws std::invalid_argument if nothing was staged for advance().
  void check_staged() const {
    const auto live = [](const PathState& state) { return state.sequence.live; };
    if (tree_.staged().empty() && std::any_of(states_.begin(), states_.end(), live))
      throw_invalid("nothing is staged: expected plan() after request() and advance()");
  }
  // Frees the queries' nodes except those of the requested paths and, with `and_after`, the nodes
  // after them.
  void keep(bool and_after) {
    std::vector<std::vector<int32_t>> kept(rows_.size());
    for (const PathState& state : states_)
      if (state.sequence.node != TokenTree::kNone) kept[state.row].push_back(state.sequence.node);
    for (size_t row = 0; row < rows_.size(); ++row)
      if (!kept[row].empty()) rows_[row].nodes->keep(kept[row], and_after);
  }
  void finish_round(bool done) {
    tree_.clear_staged();
    unfinished_ = !done;
  }
  void submit() {
    for (Query& query : rows_) {
      if (!query.live || !query.nodes) continue;
      query.begin = static_cast<int32_t>(tree_.staged().size());
      query.nodes->submit();
    }
  }

  std::shared_ptr<const GuessModel> model_;
  TokenTree tree_;
  std::vector<Query> rows_;
  std::vector<PathState> states_;
  std::vector<DraftTree> trees_;  // by requested path

 private:
  // Frees all nodes: a step that failed left some unevaluated.
  void forget() {
    for (size_t row = 0; row < rows_.size(); ++row) {
      if (!rows_[row].live) continue;
      tree_.clear(static_cast<int32_t>(row));
      rows_[row].root = TokenTree::kNone;
    }
    unfinished_ = false;
  }
  Query& checked_row(int32_t row, bool live) {
    if (row < 0 || static_cast<size_t>(row) >= rows_.size() || rows_[row].live != live)
      throw_invalid("row ", row, live ? " is free" : " is taken", " or none");
    return rows_[row];
  }
  // The deepest node of a path that exists already.
  int32_t known(const Query& query, const std::vector<int32_t>& token_ids) const {
    int32_t node = query.root;
    if (node == TokenTree::kNone) return node;
    for (const int32_t token_id : token_ids) {
      const int32_t child = tree_.child(node, token_id);
      if (child == TokenTree::kNone) break;
      node = child;
    }
    return node;
  }
  void add_rest(Query& query, PathState& state, int32_t node) {
    if (node == TokenTree::kNone) {
      if (query.root == TokenTree::kNone) query.root = query.nodes->begin();
      node = query.root;
      state.pending.push_back(node);
    }
    const auto& token_ids = state.sequence.token_ids;
    for (auto at = static_cast<size_t>(tree_.position(node)); at < token_ids.size(); ++at) {
      node = query.nodes->child_or_new(node, token_ids[at]);
      state.pending.push_back(node);
    }
    state.sequence.node = node;
  }

  bool unfinished_ = false;  // between request() and the last advance()
};

}  // namespace molspec
