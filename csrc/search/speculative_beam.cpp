#include "search/speculative_beam.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace molspec {

SpeculativeBeamSearch::SpeculativeBeamSearch(const SpeculativeBeamOptions& options,
                                             std::optional<WindowOptions> windows,
                                             std::shared_ptr<const GuessModel> guess_model,
                                             int32_t query_count)
    : options_(options),
      windows_(windows),
      guess_model_(std::move(guess_model)),
      tree_(query_count) {
  check(static_cast<const ListOptions&>(options));
  require(options.nucleus > 0 && options.nucleus <= 1, "nucleus", options.nucleus,
          "more than 0, at most 1");
  require(query_count >= 1, "query_count", query_count, "at least 1");
  queries_.resize(static_cast<size_t>(query_count));
  if (!windows) return;
  for (Query& query : queries_) query.windows.emplace(*windows, guess_model_->roles());
}

void SpeculativeBeamSearch::start(int32_t index, const std::vector<int32_t>& source_ids) {
  Query& query = queries_.at(static_cast<size_t>(index));
  if (query.live) throw std::invalid_argument("row " + std::to_string(index) + " is taken");
  const TokenRoles& roles = guess_model_->roles();
  const auto length = static_cast<int>(source_ids.size());
  roles.check_tokens(source_ids.data(), length);
  if (query.windows) query.windows->start(source_ids.data(), length);
  tree_.clear_staged();
  query.live = true;
  ++live_count_;
  query.decoded = {};
  query.decoded.query = index;
  query.nodes.clear();
  query.beam.assign(1, {});
  query.beam.front().slot = query.nodes.add(tree_, index, TokenTree::kNone, roles.special().bos);
}

// ---------------------------------------------------------------------------------------- plan

bool SpeculativeBeamSearch::is_open(const BeamEntry& entry) const {
  return !entry.finished && entry.length < options_.max_length;
}

void SpeculativeBeamSearch::plan() {
  tree_.clear_staged();
  for (size_t i = 0; i < queries_.size(); ++i) {
    Query& query = queries_[i];
    if (!query.live) continue;
    query.staged.clear();
    ++query.decoded.statistics.steps;
    for (const BeamEntry& entry : query.beam)
      if (is_open(entry)) plan_hypothesis(static_cast<int32_t>(i), query, entry);
  }
}

void SpeculativeBeamSearch::plan_hypothesis(int32_t index, Query& query, const BeamEntry& entry) {
  const DraftTree& drafts =
      query.windows ? query.windows->behind(tree_.token_id(entry.slot)) : no_drafts_;
  Staged staged{{entry.slot}, {TokenTree::kNone}};
  std::vector<int32_t> placed(static_cast<size_t>(drafts.size()), TokenTree::kNone);
  for (size_t i = 0; i < placed.size(); ++i) {
    const int32_t draft_parent = drafts.parents[i];
    const int32_t parent =
        draft_parent == DraftTree::kRoot ? 0 : placed[static_cast<size_t>(draft_parent)];
    if (parent == TokenTree::kNone) continue;
    const int32_t parent_slot = staged.slots[static_cast<size_t>(parent)];
    if (tree_.position(parent_slot) + 1 >= options_.max_length) continue;
    placed[i] = static_cast<int32_t>(staged.slots.size());
    staged.slots.push_back(query.nodes.add(tree_, index, parent_slot, drafts.token_ids[i]));
    staged.parents.push_back(parent);
  }
  for (const int32_t slot : staged.slots) tree_.stage(index, slot);
  SearchStatistics& statistics = query.decoded.statistics;
  statistics.nodes += static_cast<int64_t>(staged.slots.size());
  statistics.drafted_tokens += static_cast<int64_t>(staged.slots.size()) - 1;
  query.staged.push_back(std::move(staged));
}

// ------------------------------------------------------------------------------------- advance

void SpeculativeBeamSearch::advance(const float* log_probs, int32_t vocab_size,
                                    std::vector<Decoded>& done) {
  for (size_t i = 0; i < queries_.size(); ++i) {
    Query& query = queries_[i];
    if (!query.live) continue;
    const auto index = static_cast<int32_t>(i);
    choices_.clear();
    const bool numbers = has_numbers(query, log_probs, vocab_size);
    size_t open = 0;
    for (size_t rank = 0; rank < query.beam.size(); ++rank) {
      const BeamEntry& entry = query.beam[rank];
      if (!is_open(entry)) {
        carry(entry, static_cast<int32_t>(rank));
        continue;
      }
      const Staged& staged = query.staged[open++];
      if (numbers) {
        accept(staged, log_probs, vocab_size);
        query.decoded.statistics.accepted_tokens += static_cast<int64_t>(path_.size()) - 1;
        query.decoded.statistics.emitted_tokens += static_cast<int64_t>(path_.size());
        add_leaves(entry, static_cast<int32_t>(rank), staged, log_probs, vocab_size);
      }
      log_probs += static_cast<int64_t>(staged.slots.size()) * vocab_size;
    }
    select(index, query);
    if (!numbers) {
      query.decoded.error = kNoNumbers;
      query.beam.clear();
    }
    if (std::any_of(query.beam.begin(), query.beam.end(),
                    [this](const BeamEntry& entry) { return is_open(entry); })) {
      query.nodes.collect(tree_, query.beam);
      continue;
    }
    query.decoded.hypotheses = ranked_hypotheses(tree_, query.beam, options_.n_best);
    query.live = false;
    --live_count_;
    tree_.clear(index);
    done.push_back(std::move(query.decoded));
  }
  tree_.clear_staged();
}

bool SpeculativeBeamSearch::has_numbers(const float* row, int32_t vocab_size) {
  return std::isfinite(*std::max_element(row, row + vocab_size));
}

bool SpeculativeBeamSearch::has_numbers(const Query& query, const float* log_probs,
                                        int32_t vocab_size) {
  for (const Staged& staged : query.staged) {
    if (!has_numbers(log_probs, vocab_size)) return false;
    log_probs += static_cast<int64_t>(staged.slots.size()) * vocab_size;
  }
  return true;
}

bool SpeculativeBeamSearch::is_accepted(int32_t token_id, const float* row, int32_t vocab_size) {
  best_tokens(row, vocab_size, options_.beam_size, best_);
  double above = 0.0;
  for (const Candidate& candidate : best_) {
    if (candidate.token == token_id) return true;
    above += std::exp(static_cast<double>(candidate.log_prob));
    if (above >= options_.nucleus) return false;
  }
  return false;
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
    if (!is_accepted(tree_.token_id(staged.slots[i]), row(parent), vocab_size)) continue;
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

void SpeculativeBeamSearch::carry(const BeamEntry& entry, int32_t rank) {
  choices_.push_back({{beam_score(entry.log_prob, entry.length, options_.length_penalty), rank,
                       BeamChoice::kCarried},
                      entry.log_prob,
                      entry.confidence,
                      entry.slot,
                      entry.length});
}

void SpeculativeBeamSearch::add_leaves(const BeamEntry& entry, int32_t rank, const Staged& staged,
                                       const float* log_probs, int32_t vocab_size) {
  double log_prob = entry.log_prob;
  for (size_t depth = 0; depth < path_.size(); ++depth) {
    const auto at = static_cast<size_t>(path_[depth]);
    const float* row = log_probs + static_cast<int64_t>(at) * vocab_size;
    const bool last = depth + 1 == path_.size();
    const int32_t draft_token =
        last ? TokenTree::kNone
             : tree_.token_id(staged.slots[static_cast<size_t>(path_[depth + 1])]);
    const int32_t length = entry.length + static_cast<int32_t>(depth) + 1;
    best_tokens(row, vocab_size, options_.beam_size, best_);
    for (const Candidate& next : best_) {
      if (next.token == draft_token) continue;
      const double total = log_prob + static_cast<double>(next.log_prob);
      choices_.push_back({{beam_score(total, length, options_.length_penalty), rank, next.token},
                          total,
                          entry.confidence,
                          staged.slots[at],
                          length});
    }
    if (!last) log_prob += static_cast<double>(row[draft_token]);
  }
}

void SpeculativeBeamSearch::select(int32_t index, Query& query) {
  // Leaves of one hypothesis may share score and token: then the shorter one is first.
  const auto order = [](const BeamChoice& left, const BeamChoice& right) {
    if (better(left, right) || better(right, left)) return better(left, right);
    return left.length < right.length;
  };
  choices_.erase(select_best(choices_.begin(), choices_.end(), options_.beam_size, order),
                 choices_.end());
  next_.clear();
  for (const BeamChoice& choice : choices_) {
    BeamEntry entry{choice.slot, choice.length, choice.log_prob, false, 1.0F};
    if (choice.token_id == BeamChoice::kCarried) {
      entry.finished = query.beam[static_cast<size_t>(choice.parent_rank)].finished;
    } else if (choice.token_id == guess_model_->roles().special().eos) {
      entry.finished = true;  // nothing follows EOS: it needs no node
    } else {
      const int32_t child = tree_.child(choice.slot, choice.token_id);
      entry.slot = child != TokenTree::kNone
                       ? child
                       : query.nodes.add(tree_, index, choice.slot, choice.token_id);
    }
    next_.push_back(entry);
  }
  query.beam.swap(next_);
}

}  // namespace molspec
