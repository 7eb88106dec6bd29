#include "drafting/draft_tree.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace molspec {

void DraftTree::clear() {
  token_ids.clear();
  parents.clear();
  log_probs.clear();
}

int32_t DraftTree::add(int32_t token, int32_t parent, float log_prob) {
  token_ids.push_back(token);
  parents.push_back(parent);
  log_probs.push_back(log_prob);
  return size() - 1;
}

void check(const TreeOptions& options) {
  if (options.node_budget < 1) {
    throw std::invalid_argument("node_budget is " + std::to_string(options.node_budget) +
                                ": expected at least 1");
  }
  if (options.max_depth < 1) {
    throw std::invalid_argument("max_depth is " + std::to_string(options.max_depth) +
                                ": expected at least 1");
  }
  if (!(options.min_probability >= 0 && options.min_probability < 1)) {
    throw std::invalid_argument("min_probability is " + std::to_string(options.min_probability) +
                                ": expected at least 0 and less than 1");
  }
}

TreeDrafter::TreeDrafter(const TreeOptions& options)
    : options_(options), min_log_prob_(options.min_log_prob()) {
  check(options);
}

bool TreeDrafter::worse(const Entry& left, const Entry& right) {
  if (left.log_prob != right.log_prob) return left.log_prob < right.log_prob;
  if (left.parent != right.parent) return left.parent > right.parent;
  return left.token > right.token;
}

void TreeDrafter::expand(const Guess& guess, const GuessState& state, int32_t node,
                         float log_prob) {
  guess.candidates(state, options_.node_budget, candidates_);
  const int32_t eos = guess.model().roles().special().eos;
  for (const Candidate& candidate : candidates_) {
    const float path = log_prob + candidate.log_prob;
    if (path < min_log_prob_) break;
    if (candidate.token == eos) continue;
    heap_.push_back({path, node, candidate.token});
    std::push_heap(heap_.begin(), heap_.end(), worse);
  }
}

void TreeDrafter::propose(const Guess& guess, const GuessState& state, DraftTree& out) {
  out.clear();
  heap_.clear();
  depths_.clear();
  states_.resize(static_cast<size_t>(options_.node_budget));
  expand(guess, state, DraftTree::kRoot, 0);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), worse);
    const Entry entry = heap_.back();
    heap_.pop_back();
    const int32_t node = out.add(entry.token, entry.parent, entry.log_prob);
    if (out.size() >= options_.node_budget) return;
    const bool at_root = entry.parent == DraftTree::kRoot;
    depths_.push_back(at_root ? 1 : depths_[static_cast<size_t>(entry.parent)] + 1);
    if (depths_.back() == options_.max_depth) continue;
    const GuessState& parent = at_root ? state : states_[static_cast<size_t>(entry.parent)];
    GuessState& child = states_[static_cast<size_t>(node)];
    guess.advance(parent, entry.token, child);
    expand(guess, child, node, entry.log_prob);
  }
}

}  // namespace molspec
