#include "search/greedy.h"

#include <algorithm>

#include "rules/argmax.h"
#include "rules/relaxed.h"

namespace molspec {

// rules/argmax.h and rules/relaxed.h: this thread.
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
  double nth_log_prob(int32_t node, int32_t n) const {
    const float* row = log_probs_ + int64_t{node} * vocab_size_;
    std::vector<float> best(static_cast<size_t>(std::min(n, vocab_size_)));
    std::partial_sort_copy(row, row + vocab_size_, best.begin(), best.end(), std::greater<>());
    return best.back();
  }
  template <typename Take>
  void drafts(int32_t node, const Take& take) const {
    const float* row = log_probs_ + int64_t{node} * vocab_size_;
    for (size_t i = 1; i < search_.slots_.size(); ++i) {
      if (search_.parents_[i] != node) continue;
      const int32_t token_id = search_.row_.tree->token_id(search_.slots_[i]);
      take(static_cast<int32_t>(i), token_id, row[token_id], search_.own_[i]);
    }
  }
  void keep(int32_t node, int32_t /*count*/) const { search_.path_.push_back(node); }
  void write(int32_t /*place*/, int32_t token_id) const { search_.token_ids_.push_back(token_id); }

 private:
  GreedySearch& search_;
  const float* log_probs_;
  int32_t vocab_size_;
};

GreedySearch::GreedySearch(const GreedySpec& spec, Row row)
    : Search(std::move(row)), spec_(spec), drafter_(make_drafter(spec.drafter, row_.model)) {}

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
  place(*proposed, spec_.max_length, slots_, parents_);
  if (spec_.relaxed) note_drafts(*proposed);
  for (const int32_t slot : slots_) row_.tree->stage(row_.index, slot);
  count_staged(slots_.size(), slots_.size() - 1);
}

void GreedySearch::note_drafts(const DraftTree& drafts) {
  own_.assign(slots_.size(), 0);
  for (int32_t i = 0; i < drafts.size(); ++i) {
    const int32_t place = placed()[static_cast<size_t>(i)];
    if (place == kLeftOut) continue;
    const float before = drafts.log_prob(drafts.parents[static_cast<size_t>(i)]);
    own_[static_cast<size_t>(place)] = drafts.log_prob(i) - before;
  }
}

bool GreedySearch::advance(const float* log_probs, int32_t vocab_size) {
  path_.clear();
  const Team team(*this, log_probs, vocab_size);
  const Verdict verdict =
      spec_.relaxed ? accept_relaxed(team, *spec_.relaxed, row_.eos(), spec_.max_length, answer_)
                    : accept_argmax(team, row_.eos(), spec_.max_length, answer_);
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
    if (spec_.relaxed) decoded_.hypotheses.back().tolerated = answer_.tolerated_tokens;
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

std::unique_ptr<Search> GreedySpec::search(const Row& row) const {
  return std::make_unique<GreedySearch>(*this, row);
}

}  // namespace molspec
