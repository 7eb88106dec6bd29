#include "search/beam_nodes.h"

#include <algorithm>
#include <cmath>

namespace molspec {

int32_t BeamNodes::add(TokenTree& tree, int32_t query, int32_t parent, int32_t token_id) {
  slots_.push_back(tree.add(query, parent, token_id));
  return slots_.back();
}

void BeamNodes::collect(TokenTree& tree, const Beam& beam) {
  enum : char { kDrop, kBefore, kBehind };
  marks_.resize(static_cast<size_t>(tree.block_count()) * kBlockPositions);
  const auto mark = [this](int32_t slot) -> char& { return marks_[static_cast<size_t>(slot)]; };
  for (const int32_t slot : slots_) mark(slot) = kDrop;
  for (const BeamEntry& entry : beam) {
    for (int32_t slot = tree.parent(entry.node); slot != TokenTree::kNone && mark(slot) == kDrop;
         slot = tree.parent(slot))
      mark(slot) = kBefore;
  }
  for (const BeamEntry& entry : beam)
    if (!entry.finished) {
      mark(entry.node) = kBehind;
    } else if (mark(entry.node) == kDrop) {
      mark(entry.node) = kBefore;
    }
  for (const int32_t slot : slots_) {
    const int32_t parent = tree.parent(slot);
    if (parent != TokenTree::kNone && mark(parent) == kBehind) mark(slot) = kBehind;
  }
  for (const int32_t slot : slots_)
    if (mark(slot) == kDrop) tree.remove(slot);
  slots_.erase(std::remove_if(slots_.begin(), slots_.end(),
                              [&](int32_t slot) { return mark(slot) == kDrop; }),
               slots_.end());
}

double length_norm(int32_t length, double length_penalty) {
  return std::pow(length, length_penalty);
}

double beam_score(double log_prob, int32_t length, double length_penalty) {
  return length_penalty == 0 ? log_prob : log_prob / length_norm(length, length_penalty);
}

void best_tokens(const float* log_probs, int32_t vocab_size, int32_t count,
                 std::vector<Candidate>& out) {
  out.clear();
  if (std::isnan(log_probs[0])) return;
  const auto size = static_cast<size_t>(count);
  for (int32_t token = 0; token < vocab_size; ++token) {
    const float log_prob = log_probs[token];
    if (out.size() == size) {
      if (!(log_prob > out.back().log_prob)) continue;  // of equals the first one stays
      out.pop_back();
    }
    if (std::isnan(log_prob)) continue;
    auto place = out.end();
    while (place != out.begin() && log_prob > std::prev(place)->log_prob) --place;
    out.insert(place, {token, log_prob});
  }
  if (!out.empty() && !std::isfinite(out.front().log_prob)) out.clear();
}

std::vector<Hypothesis> ranked_hypotheses(const TokenTree& tree, const Beam& beam, int32_t n_best) {
  std::vector<Hypothesis> hypotheses(std::min(beam.size(), static_cast<size_t>(n_best)));
  for (size_t i = 0; i < hypotheses.size(); ++i)
    hypotheses[i] = {tree.path(beam[i].node), beam[i].log_prob, beam[i].finished != 0};
  return hypotheses;
}

}  // namespace molspec
