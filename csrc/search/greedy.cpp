#include "search/greedy.h"

#include <algorithm>

#include "rules/argmax.h"

namespace molspec {

// rules/argmax.h: this thread.
class GreedySearch::Team {
 public:
  Team(GreedySearch& search, const float* log_probs, int32_t vocab_size)
      : search_(search), log_probs_(log_probs), vocab_size_(vocab_size) {}

  struct Likeliest {
    int32_t token_id;
    float log_prob;
  };
  Likeliest likeliest(int32_t node) const {
    const float* row = log_probs_ + int64_t{node} * vocab_size_;
    const float* best = std::max_element(row, row + vocab_size_);
    return {static_cast<int32_t>(best - row), *best};
  }
  int32_t drafted(int32_t node, int32_t token_id) const {
    const TokenTree& tree = *search_.row_.tree;
    const std::vector<int32_t>& slots = search_.slots_;
    const int32_t child = tree.child(slots[static_cast<size_t>(node)], token_id);
    if (child == TokenTree::kNone) return kLastToken;
    return static_cast<int32_t>(std::find(slots.begin(), slots.end(), child) - slots.begin());
  }
  void keep(int32_t node, int32_t /*count*/) const { search_.path_.push_back(node); }
  void write(int32_t /*place*/, int32_t token_id) const { search_.token_ids_.push_back(token_id); }

 private:
  GreedySearch& search_;
  const float* log_probs_;
  int32_t vocab_size_;
};

GreedySearch::GreedySearch(const GreedySpec& spec, Row row)
    : Search(std::move(row)),
      max_length_(spec.max_length),
      drafter_(make_drafter(spec.drafter, row_.model)) {}

void GreedySearch::start(const std::vector<int32_t>& source_ids) {
  if (drafter_) drafter_->start(source_ids.data(), static_cast<int>(source_ids.size()));
  begin();
  answer_ = {};
  token_ids_.clear();
  slots_ = {row_.add(TokenTree::kNone, row_.bos())};
}

void GreedySearch::paths(std::vector<Path>& out) const {
  if (drafter_) return;
  const int32_t before = row_.tree->parent(slots_.front());
  out.push_back({row_.index, token_ids_, answer_.log_prob, before});
}

void GreedySearch::plan(const DraftTree* proposed) {
  if (drafter_) {
    drafter_->propose(token_ids_.data(), static_cast<int>(token_ids_.size()), drafts_);
    proposed = &drafts_;
  }
  parents_ = {TokenTree::kNone};
  place(*proposed, max_length_, slots_, parents_);
  for (const int32_t slot : slots_) row_.tree->stage(row_.index, slot);
  count_staged(slots_.size(), slots_.size() - 1);
}

bool GreedySearch::advance(const float* log_probs, int32_t vocab_size) {
  path_.clear();
  const Team team(*this, log_probs, vocab_size);
  const Verdict verdict = accept_argmax(team, row_.eos(), max_length_, answer_);
  if (verdict == Verdict::kGoesOn) {
    keep_path();
  } else {
    finish(verdict == Verdict::kDone);
  }
  return verdict != Verdict::kGoesOn;
}

void GreedySearch::finish(bool numbers) {
  decoded_.statistics.accepted_tokens = answer_.accepted_tokens;
  decoded_.statistics.emitted_tokens = answer_.emitted_tokens;
  if (numbers) {
    decoded_.hypotheses.push_back({token_ids_, answer_.log_prob, answer_.finished != 0});
  } else {
    decoded_.error = kNoNumbers;
  }
}

void GreedySearch::keep_path() {
  const int32_t last = slots_[static_cast<size_t>(path_.back())];
  for (size_t i = 0; i < slots_.size(); ++i)
    if (std::find(path_.begin(), path_.end(), static_cast<int32_t>(i)) == path_.end())
      row_.tree->remove(slots_[i]);
  slots_.assign(1, row_.add(last, token_ids_.back()));
}

}  // namespace molspec
