#include "search/greedy.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace molspec {
namespace {

int32_t find_child(const std::vector<int32_t>& parents, const std::vector<int32_t>& slots,
                   const TokenTree& tree, int32_t parent, int32_t token_id) {
  for (size_t i = static_cast<size_t>(parent) + 1; i < slots.size(); ++i)
    if (parents[i] == parent && tree.token_id(slots[i]) == token_id) return static_cast<int32_t>(i);
  return TokenTree::kNone;
}

}  // namespace

GreedySearch::GreedySearch(std::shared_ptr<const DrafterFactory> drafters, int32_t query_count,
                           int32_t max_length)
    : drafters_(std::move(drafters)), max_length_(max_length), tree_(query_count) {
  if (query_count < 1)
    throw std::invalid_argument("query_count is " + std::to_string(query_count) +
                                ": expected at least 1");
  if (max_length < 1)
    throw std::invalid_argument("max_length is " + std::to_string(max_length) +
                                ": expected at least 1");
  queries_.resize(static_cast<size_t>(query_count));
}

void GreedySearch::start(int32_t index, const std::vector<int32_t>& source_ids) {
  Query& query = queries_.at(static_cast<size_t>(index));
  if (query.live) throw std::invalid_argument("row " + std::to_string(index) + " is taken");
  const auto length = static_cast<int>(source_ids.size());
  if (query.drafter) {
    query.drafter->start(source_ids.data(), length);
  } else {
    query.drafter = drafters_->start(source_ids.data(), length);
  }
  query.live = true;
  ++live_count_;
  query.decoded = {};
  query.decoded.query = index;
  query.decoded.hypotheses.resize(1);
  const int32_t bos = drafters_->model().roles().special().bos;
  query.slots = {tree_.add(index, TokenTree::kNone, bos)};
  query.parents = {TokenTree::kNone};
}

void GreedySearch::plan() {
  tree_.clear_staged();
  for (size_t i = 0; i < queries_.size(); ++i)
    if (queries_[i].live) plan_query(static_cast<int32_t>(i), queries_[i]);
}

void GreedySearch::plan_query(int32_t index, Query& query) {
  query.drafter->propose(drafts_);
  // A draft is worth a row only where a token may still follow it. Parents precede children, so a
  // draft whose parent was left out is left out too.
  path_.assign(static_cast<size_t>(drafts_.size()), TokenTree::kNone);
  for (size_t i = 0; i < path_.size(); ++i) {
    const int32_t draft_parent = drafts_.parents[i];
    const int32_t parent =
        draft_parent == DraftTree::kRoot ? 0 : path_[static_cast<size_t>(draft_parent)];
    if (parent == TokenTree::kNone) continue;
    const int32_t parent_slot = query.slots[static_cast<size_t>(parent)];
    if (tree_.position(parent_slot) + 1 >= max_length_) continue;
    path_[i] = static_cast<int32_t>(query.slots.size());
    query.slots.push_back(tree_.add(index, parent_slot, drafts_.token_ids[i]));
    query.parents.push_back(parent);
  }
  for (const int32_t slot : query.slots) tree_.stage(index, slot);
  SearchStatistics& statistics = query.decoded.statistics;
  ++statistics.steps;
  statistics.nodes += static_cast<int64_t>(query.slots.size());
  statistics.drafted_tokens += static_cast<int64_t>(query.slots.size()) - 1;
}

void GreedySearch::advance(const float* log_probs, int32_t vocab_size, std::vector<Decoded>& done) {
  for (size_t i = 0; i < queries_.size(); ++i) {
    Query& query = queries_[i];
    if (!query.live) continue;
    const float* rows = log_probs;
    log_probs += static_cast<int64_t>(query.slots.size()) * vocab_size;
    if (!verify(query, rows, vocab_size)) {
      keep_path(static_cast<int32_t>(i), query);
      continue;
    }
    query.live = false;
    --live_count_;
    tree_.clear(static_cast<int32_t>(i));
    done.push_back(std::move(query.decoded));
  }
}

bool GreedySearch::verify(Query& query, const float* log_probs, int32_t vocab_size) {
  path_ = {0};
  while (true) {
    const float* row = log_probs + static_cast<int64_t>(path_.back()) * vocab_size;
    const float* best = std::max_element(row, row + vocab_size);  // the first of equals
    if (!std::isfinite(*best)) {
      query.decoded.hypotheses.clear();
      query.decoded.error = "the model's log-probabilities are not numbers";
      return true;
    }
    const auto token_id = static_cast<int32_t>(best - row);
    if (emit(query, token_id, *best)) return true;
    const int32_t child =
        find_child(query.parents, query.slots, tree_, path_.back(), token_id);
    if (child == TokenTree::kNone) return false;
    ++query.decoded.statistics.accepted_tokens;
    path_.push_back(child);
  }
}

bool GreedySearch::emit(Query& query, int32_t token_id, float log_prob) {
  Hypothesis& hypothesis = query.decoded.hypotheses.front();
  const int64_t emitted = ++query.decoded.statistics.emitted_tokens;
  hypothesis.log_prob += log_prob;
  if (token_id == drafters_->model().roles().special().eos) {
    hypothesis.finished = true;
    return true;
  }
  hypothesis.token_ids.push_back(token_id);
  return emitted >= max_length_;
}

void GreedySearch::keep_path(int32_t index, Query& query) {
  size_t next = 0;
  for (size_t i = 0; i < query.slots.size(); ++i) {
    if (next < path_.size() && path_[next] == static_cast<int32_t>(i)) {
      ++next;
    } else {
      tree_.remove(index, query.slots[i]);
    }
  }
  const std::vector<int32_t>& tokens = query.decoded.hypotheses.front().token_ids;
  const auto emitted = static_cast<int>(path_.size());
  query.drafter->advance(tokens.data() + tokens.size() - path_.size(), emitted);
  const int32_t last = query.slots[static_cast<size_t>(path_.back())];
  query.slots.assign(1, tree_.add(index, last, tokens.back()));
  query.parents.assign(1, TokenTree::kNone);
}

}  // namespace molspec
