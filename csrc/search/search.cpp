#include "search/search.h"

#include <algorithm>
#include <cmath>

#include "search/draft_ledger.h"

namespace molspec {

void Search::start(const std::vector<int32_t>& source_ids, uint64_t query_key,
                   const std::vector<int32_t>& prefix) {
  row_.guess->roles().check_tokens(source_ids);
  query_key_ = query_key;
  prefix_ = prefix;
  prefix_log_prob_ = 0;
  decoded_ = {};
  decoded_.row = row_.index;
  before_root_.clear();
  root_ = nodes_.begin(row_.guess->roles().special().bos);
  for (const int32_t token_id : prefix) {
    before_root_.push_back(root_);
    root_ = nodes_.add(root_, token_id);
  }
  if (drafter_) drafter_->start(source_ids);
  begin(source_ids);
  find_heads();
}

Path Search::path(const Head& head) const {
  const bool is_chosen = before_root_.empty();  // no log-probs chose a given token
  return {row_.index, row_.tree->path(head.node), head.log_prob,
          is_chosen ? row_.tree->parent(head.node) : TokenTree::kNone, head.sampler};
}

void Search::plan() {
  const size_t before = row_.tree->staged().size();
  // In the first round the prefix takes no pass of its own.
  for (const int32_t node : before_root_) nodes_.stage(node);
  SearchStatistics& counts = decoded_.statistics;
  counts.drafted_tokens += stage();
  counts.nodes += static_cast<int64_t>(row_.tree->staged().size() - before);
  ++counts.steps;
}

// Heads may share nodes: their drafts are counted for each.
int32_t Search::stage() {
  int32_t count = 0;
  for (Head* head : heads_) {
    draft(*head);
    nodes_.stage(head->node);
    count += nodes_.stage(head->node, head->drafts, stop_.max_length, head->slots);
  }
  return count;
}

void Search::draft(Head& head) {
  if (!drafter_) return;
  const auto is_same = [&](const Head* other) { return other->node == head.node; };
  if (const Head* first = *std::ranges::find_if(heads_, is_same); first != &head) {
    head.drafts = first->drafts;
    return;
  }
  const std::vector<int32_t> path = row_.tree->path(head.node);
  const size_t length = path.size() + 1;
  if (!ledger_ || ledger_->pays(length))
    drafter_->propose(path, head.drafts);
  else
    head.drafts.clear();
  if (ledger_) ledger_->draft(head.drafts, length);
}

bool Search::advance(const StepLogProbs& log_probs) {
  if (!before_root_.empty()) {
    for (size_t i = 0; i < prefix_.size(); ++i)
      prefix_log_prob_ += static_cast<double>(log_probs.after(before_root_[i])[prefix_[i]]);
    before_root_.clear();
    if (!std::isfinite(prefix_log_prob_)) {
      decoded_.error = std::isnan(prefix_log_prob_) ? kNoNumbers : kImpossiblePrefix;
      return true;
    }
    set_log_prob(prefix_log_prob_);
  }
  if (accept(log_probs)) return true;
  find_heads();
  return false;
}

Decoded Search::take() {
  for (Hypothesis& each : decoded_.hypotheses)
    if (!prefix_.empty()) each.prefix_log_prob = prefix_log_prob_;
  return std::move(decoded_);
}

}  // namespace molspec
