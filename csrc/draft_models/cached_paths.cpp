#include "draft_models/cached_paths.h"

#include <algorithm>
#include <utility>

#include "common/require.h"

namespace molspec {

CachedPaths::CachedPaths(int32_t row_count, std::shared_ptr<const GuessModel> model)
    : model_(std::move(model)), tree_(row_count) {
  for (int32_t row = 0; row < row_count; ++row) rows_.push_back({.nodes = {&tree_, row}});
}

void CachedPaths::start(int32_t row, const std::vector<int32_t>& source_ids) {
  Query& query = checked_row(rows_, row, false);
  model_->roles().check_tokens(source_ids);
  query.root = TokenTree::kNone;
  query.live = true;
}

void CachedPaths::release(int32_t row) {
  checked_row(rows_, row, true).live = false;
  tree_.clear(row);
}

void CachedPaths::request(const std::vector<Path>& paths, const std::vector<int32_t>& counts) {
  if (paths.size() != counts.size())
    throw_invalid("counts has ", counts.size(), " items: expected one a path");
  tree_.clear_staged();
  states_.clear();
  trees_.assign(paths.size(), {});
  if (unfinished_) forget();
  for (const Path& path : paths) {
    checked_row(rows_, path.row, true);
    model_->roles().check_tokens(path.token_ids);
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    const Query& query = rows_[paths[i].row];
    const std::vector<int32_t>& token_ids = paths[i].token_ids;
    PathState state;
    state.row = paths[i].row;
    state.count = counts[i];
    state.begin = token_ids.size();
    state.sequence.rule = drafting_rule(paths[i].sampler, model_->roles().special(), trees_[i]);
    if (paths[i].sampler) state.sequence.sampler = paths[i].sampler->of_drafter();
    state.sequence.live = counts[i] > 0;
    state.sequence.token_ids = token_ids;
    state.sequence.log_prob = paths[i].log_prob;
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

void CachedPaths::forget() {
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (!rows_[row].live) continue;
    tree_.clear(static_cast<int32_t>(row));
    rows_[row].root = TokenTree::kNone;
  }
  unfinished_ = false;
}

int32_t CachedPaths::known(const Query& query, const std::vector<int32_t>& token_ids) const {
  int32_t node = query.root;
  if (node == TokenTree::kNone) return node;
  for (const int32_t token_id : token_ids) {
    const int32_t child = tree_.child(node, token_id);
    if (child == TokenTree::kNone) break;
    node = child;
  }
  return node;
}

void CachedPaths::add_rest(Query& query, PathState& state, int32_t node) {
  if (node == TokenTree::kNone) {
    if (query.root == TokenTree::kNone)
      query.root = query.nodes.begin(model_->roles().special().bos);
    node = query.root;
    state.pending.push_back(node);
  }
  const auto& token_ids = state.sequence.token_ids;
  for (auto at = static_cast<size_t>(tree_.position(node)); at < token_ids.size(); ++at) {
    node = query.nodes.child_or_new(node, token_ids[at]);
    state.pending.push_back(node);
  }
  state.sequence.node = node;
}

void CachedPaths::keep(bool and_after) {
  std::vector<std::vector<QueryNodes::Kept>> kept(rows_.size());
  for (const PathState& state : states_)
    if (state.sequence.node != TokenTree::kNone)
      kept[state.row].push_back({state.sequence.node, and_after});
  for (size_t row = 0; row < rows_.size(); ++row)
    if (!kept[row].empty()) rows_[row].nodes.keep(kept[row]);
}

void CachedPaths::stage(PathState& state, const DraftTree& drafts) {
  QueryNodes& nodes = query(state).nodes;
  for (const int32_t node : state.pending) nodes.stage(node);
  state.pending.clear();
  nodes.stage(state.sequence.node);
  const auto end = static_cast<int32_t>(state.begin) + state.count;
  nodes.stage(state.sequence.node, drafts, end, state.sequence.slots);
}

void CachedPaths::check_staged() const {
  const auto live = [](const PathState& state) { return state.sequence.live; };
  if (tree_.staged().empty() && std::any_of(states_.begin(), states_.end(), live))
    throw_invalid("nothing is staged: expected plan() after request() and advance()");
}

void CachedPaths::finish_round(bool done) {
  tree_.clear_staged();
  unfinished_ = !done;
}

}  // namespace molspec
