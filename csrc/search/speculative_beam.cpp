#include "search/speculative_beam.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace molspec {
namespace {

// rules/nucleus.h: the likeliest tokens of a position.
struct BestTokens {
  const std::vector<Candidate>& candidates;

  int32_t count() const { return static_cast<int32_t>(candidates.size()); }
  int32_t token(int32_t i) const { return candidates[static_cast<size_t>(i)].token; }
  float log_prob(int32_t i) const { return candidates[static_cast<size_t>(i)].log_prob; }
};

}  // namespace

SpeculativeBeamSearch::SpeculativeBeamSearch(const SpeculativeBeamSpec& spec, Row row)
    : Search(std::move(row)), spec_(spec), drafter_(make_drafter(spec.drafter, row_.model)) {}

void SpeculativeBeamSearch::start(const std::vector<int32_t>& source_ids) {
  const auto length = static_cast<int>(source_ids.size());
  row_.model->roles().check_tokens(source_ids.data(), length);
  if (drafter_) drafter_->start(source_ids.data(), length);
  begin();
  nodes_.clear();
  beam_.assign(1, first_entry(nodes_.add(*row_.tree, row_.index, TokenTree::kNone, row_.bos())));
}

// ---------------------------------------------------------------------------------------- plan

void SpeculativeBeamSearch::paths(std::vector<Path>& out) const {
  if (drafter_) return;
  for (const BeamEntry& entry : beam_)
    if (continues(entry)) out.push_back(path(entry.node, entry.log_prob));
}

void SpeculativeBeamSearch::plan(const DraftTree* proposed) {
  staged_.clear();
  for (const BeamEntry& entry : beam_) {
    if (!continues(entry)) continue;
    if (drafter_) {
      const std::vector<int32_t> token_ids = row_.tree->path(entry.node);
      drafter_->propose(token_ids.data(), static_cast<int>(token_ids.size()), drafts_);
      plan_hypothesis(entry, drafts_);
    } else {
      plan_hypothesis(entry, *proposed++);
    }
  }
  size_t nodes = 0;
  for (const Staged& staged : staged_) {
    for (const int32_t slot : staged.slots) row_.tree->stage(row_.index, slot);
    nodes += staged.slots.size();
  }
  count_staged(nodes, nodes - staged_.size());
}

void SpeculativeBeamSearch::plan_hypothesis(const BeamEntry& entry, const DraftTree& drafts) {
  Staged staged{{entry.node}, {TokenTree::kNone}};
  place(drafts, spec_.max_length, staged.slots, staged.parents);
  nodes_.add(staged.slots.begin() + 1, staged.slots.end());
  staged_.push_back(std::move(staged));
}

// ------------------------------------------------------------------------------------- advance

bool SpeculativeBeamSearch::advance(const float* log_probs, int32_t vocab_size) {
  leaves_.clear();
  const bool numbers = has_numbers(log_probs, vocab_size, staged_);
  auto staged = staged_.begin();
  for (size_t i = 0; i < beam_.size() && numbers; ++i) {
    const auto rank = static_cast<int32_t>(i);
    if (!continues(beam_[i])) {
      carry(rank);
      continue;
    }
    accept(*staged, log_probs, vocab_size);
    decoded_.statistics.accepted_tokens += static_cast<int64_t>(path_.size()) - 1;
    decoded_.statistics.emitted_tokens += static_cast<int64_t>(path_.size());
    add_leaves(rank, *staged, log_probs, vocab_size);
    log_probs += static_cast<int64_t>(staged->slots.size()) * vocab_size;
    ++staged;
  }
  select();
  if (std::any_of(beam_.begin(), beam_.end(), [&](const BeamEntry& e) { return continues(e); })) {
    nodes_.collect(*row_.tree, beam_);
    return false;
  }
  if (!numbers) decoded_.error = kNoNumbers;
  decoded_.hypotheses = ranked_hypotheses(*row_.tree, beam_, spec_.n_best);
  return true;
}

bool SpeculativeBeamSearch::has_numbers(const float* row, int32_t vocab_size) {
  return std::isfinite(*std::max_element(row, row + vocab_size));
}

bool SpeculativeBeamSearch::has_numbers(const float* log_probs, int32_t vocab_size,
                                        const std::vector<Staged>& staged) {
  for (const Staged& hypothesis : staged) {
    if (!has_numbers(log_probs, vocab_size)) return false;
    log_probs += static_cast<int64_t>(hypothesis.slots.size()) * vocab_size;
  }
  return true;
}

void SpeculativeBeamSearch::accept(const Staged& staged, const float* log_probs,
                                   int32_t vocab_size) {
  depths_.assign(staged.slots.size(), TokenTree::kNone);  // of accepted nodes
  depths_.front() = 0;
  size_t deepest = 0;
  const auto row = [&](size_t node) { return log_probs + static_cast<int64_t>(node) * vocab_size; };
  for (size_t i = 1; i < staged.slots.size(); ++i) {
    const auto parent = static_cast<size_t>(staged.parents[i]);
    if (depths_[parent] == TokenTree::kNone) continue;
    best_tokens(row(parent), vocab_size, spec_.beam_size, best_);
    const int32_t token_id = row_.tree->token_id(staged.slots[i]);
    if (!accept_nucleus(token_id, BestTokens{best_}, static_cast<double>(spec_.nucleus))) continue;
    if (!has_numbers(row(i), vocab_size)) continue;  // no leaf's score may be NaN
    depths_[i] = depths_[parent] + 1;
    if (depths_[i] > depths_[deepest]) deepest = i;
  }
  path_.clear();
  for (auto i = static_cast<int32_t>(deepest); i != TokenTree::kNone;
       i = staged.parents[static_cast<size_t>(i)])
    path_.push_back(i);
  std::reverse(path_.begin(), path_.end());
}

void SpeculativeBeamSearch::carry(int32_t rank) {
  const BeamEntry& entry = beam_[static_cast<size_t>(rank)];
  leaves_.push_back({{score(entry.log_prob, entry.length), rank, Leaf::kCarried},
                     entry.log_prob,
                     entry.node,
                     entry.length});
}

void SpeculativeBeamSearch::add_leaves(int32_t rank, const Staged& staged, const float* log_probs,
                                       int32_t vocab_size) {
  const BeamEntry& entry = beam_[static_cast<size_t>(rank)];
  double log_prob = entry.log_prob;
  for (size_t depth = 0; depth < path_.size(); ++depth) {
    const auto at = static_cast<size_t>(path_[depth]);
    const float* row = log_probs + static_cast<int64_t>(at) * vocab_size;
    const bool last = depth + 1 == path_.size();
    const int32_t draft_token =
        last ? kNoToken : row_.tree->token_id(staged.slots[static_cast<size_t>(path_[depth + 1])]);
    const int32_t length = entry.length + static_cast<int32_t>(depth) + 1;
    best_tokens(row, vocab_size, spec_.beam_size, best_);
    for (const Candidate& next : best_) {
      if (next.token == draft_token) continue;
      const double total = log_prob + static_cast<double>(next.log_prob);
      leaves_.push_back(
          {{score(total, length), rank, next.token}, total, staged.slots[at], length});
    }
    if (!last) log_prob += static_cast<double>(row[draft_token]);
  }
}

void SpeculativeBeamSearch::select() {
  const auto before = [](const Leaf& left, const Leaf& right) { return left.before(right); };
  leaves_.erase(select_best(leaves_.begin(), leaves_.end(), spec_.beam_size, before),
                leaves_.end());
  next_.clear();
  for (const Leaf& leaf : leaves_) {
    BeamEntry entry = first_entry(leaf.node);
    entry.length = leaf.length;
    entry.log_prob = leaf.log_prob;
    if (leaf.token_id == Leaf::kCarried) {
      entry.finished = beam_[static_cast<size_t>(leaf.parent_rank)].finished;
    } else if (leaf.token_id == row_.eos()) {
      entry.finished = 1;  // nothing follows EOS: it needs no node
    } else {
      const int32_t child = row_.tree->child(leaf.node, leaf.token_id);
      entry.node = child != TokenTree::kNone
                       ? child
                       : nodes_.add(*row_.tree, row_.index, leaf.node, leaf.token_id);
    }
    next_.push_back(entry);
  }
  beam_.swap(next_);
}

std::unique_ptr<Search> SpeculativeBeamSpec::search(const Row& row) const {
  return std::make_unique<SpeculativeBeamSearch>(*this, row);
}

}  // namespace molspec
