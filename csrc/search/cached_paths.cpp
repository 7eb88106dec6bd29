#include "search/cached_paths.h"

#include <algorithm>
#include <utility>

#include "common/require.h"

namespace molspec {

CachedPaths::CachedPaths(int32_t row_count, std::shared_ptr<const GuessModel> model)
    : model_(std::move(model)), tree_(std::max(row_count, 0)) {
  require(row_count >= 1, "row_count", row_count, "at least 1");
  rows_.resize(static_cast<size_t>(row_count));
}

void CachedPaths::start(int32_t row, const std::vector<int32_t>& source_ids) {
  if (row < 0 || static_cast<size_t>(row) >= rows_.size() || rows_[static_cast<size_t>(row)].live)
    throw_invalid("row ", row, " is taken or none");
  Query& query = rows_[static_cast<size_t>(row)];
  const auto length = static_cast<int>(source_ids.size());
  model_->roles().check_tokens(source_ids.data(), length);
  if (!query.nodes)
    query.nodes = std::make_unique<SequenceGroup>(Row{row, &tree_, nullptr, model_});
  query.root = TokenTree::kNone;
  query.live = true;
}

void CachedPaths::release(int32_t row) {
  live_row(row).live = false;
  tree_.clear(row);
}

CachedPaths::Query& CachedPaths::live_row(int32_t row) {
  if (row < 0 || static_cast<size_t>(row) >= rows_.size() || !rows_[static_cast<size_t>(row)].live)
    throw_invalid("row ", row, " is free or none");
  return rows_[static_cast<size_t>(row)];
}

void CachedPaths::ask(const std::vector<Path>& paths, const std::vector<int32_t>& counts) {
  if (paths.size() != counts.size())
    throw_invalid("counts has ", counts.size(), " items: expected one a path");
  tree_.clear_staged();
  states_.clear();
  trees_.assign(paths.size(), {});
  std::vector<std::vector<int32_t>> kept(rows_.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    Query& query = live_row(paths[i].row);
    const std::vector<int32_t>& token_ids = paths[i].token_ids;
    model_->roles().check_tokens(token_ids.data(), static_cast<int>(token_ids.size()));
    PathState state;
    state.row = paths[i].row;
    state.count = counts[i];
    state.begin = token_ids.size();
    state.sampler = paths[i].sampler;
    state.sequence.live = counts[i] > 0;
    state.sequence.token_ids = token_ids;
    state.sequence.node = known(query, token_ids);
    if (state.sequence.node != TokenTree::kNone)
      kept[static_cast<size_t>(state.row)].push_back(state.sequence.node);
    states_.push_back(std::move(state));
  }
  for (size_t row = 0; row < rows_.size(); ++row)
    if (!kept[row].empty()) rows_[row].nodes->keep(kept[row], true);
  for (PathState& state : states_)
    if (state.sequence.live) add_rest(query(state), state, state.sequence.node);
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

void CachedPaths::stage() {
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

void CachedPaths::submit() {
  for (Query& query : rows_) {
    if (!query.live || !query.nodes) continue;
    query.begin = static_cast<int32_t>(tree_.staged().size());
    query.nodes->submit();
  }
}

CachedPaths::Chooser::Chooser(const PathState& state, const SpecialIds& special, DraftTree& tree)
    : state_(state), tree_(tree) {
  if (state.sampler && state.sampler->rejects())
    rejection_.emplace(*state.sampler, state.drafts, &special);
}

Drawn CachedPaths::Chooser::operator()(const float* log_probs, int32_t vocab_size,
                                       uint32_t position) {
  if (rejection_) {
    const Drawn drawn = rejection_->at(log_probs, vocab_size, position);
    if (drawn.log_prob == drawn.log_prob)
      tree_.drawn_from.insert(tree_.drawn_from.end(), rejection_->drawn_from().begin(),
                              rejection_->drawn_from().end());
    return drawn;
  }
  if (state_.sampler) return state_.sampler->at(log_probs, vocab_size, position);
  const float* best = std::max_element(log_probs, log_probs + vocab_size);
  return {static_cast<int32_t>(best - log_probs), *best};
}

}  // namespace molspec
