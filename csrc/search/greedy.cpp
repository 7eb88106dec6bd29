#include "search/greedy.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace molspec {
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
  tree_.clear_staged();
  query.live = true;
  ++live_count_;
  query.decoded = {};
  query.decoded.query = index;
  query.decoded.hypotheses.resize(1);
  const int32_t bos = drafters_->model().roles().special().bos;
  query.slots = {tree_.add(index, TokenTree::kNone, bos)};
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
  draft_slots_.assign(static_cast<size_t>(drafts_.size()), TokenTree::kNone);
  for (size_t i = 0; i < draft_slots_.size(); ++i) {
    const int32_t draft_parent = drafts_.parents[i];
    const int32_t parent = draft_parent == DraftTree::kRoot
                               ? query.slots.front()
                               : draft_slots_[static_cast<size_t>(draft_parent)];
    if (parent == TokenTree::kNone || tree_.position(parent) + 1 >= max_length_) continue;
    draft_slots_[i] = tree_.add(index, parent, drafts_.token_ids[i]);
    query.slots.push_back(draft_slots_[i]);
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
  tree_.clear_staged();
}

bool GreedySearch::verify(Query& query, const float* log_probs, int32_t vocab_size) {
  path_ = {query.slots.front()};
  int64_t staged = 0;
  while (true) {
    const float* row = log_probs + staged * vocab_size;
    const float* best = std::max_element(row, row + vocab_size);  // the first of equals
    if (!std::isfinite(*best)) {
      query.decoded.hypotheses.clear();
      query.decoded.error = kNoNumbers;
      return true;
    }
    const auto token_id = static_cast<int32_t>(best - row);
    if (emit(query, token_id, *best)) return true;
    const int32_t child = tree_.child(path_.back(), token_id);
    if (child == TokenTree::kNone) return false;
    ++query.decoded.statistics.accepted_tokens;
    path_.push_back(child);
    staged = std::find(query.slots.begin(), query.slots.end(), child) - query.slots.begin();
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
  for (const int32_t slot : query.slots)
    if (std::find(path_.begin(), path_.end(), slot) == path_.end()) tree_.remove(slot);
  const std::vector<int32_t>& tokens = query.decoded.hypotheses.front().token_ids;
  query.drafter->advance(tokens.data() + tokens.size() - path_.size(),
                         static_cast<int>(path_.size()));
  query.slots.assign(1, tree_.add(index, path_.back(), tokens.back()));
}

}  // namespace molspec
