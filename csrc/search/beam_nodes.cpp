#include "search/beam_nodes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace molspec {

void BeamNodes::collect(const Beam& beam) {
  enum : char { kDrop, kBefore, kAfter };
  // By slot of the whole batch, so one for all queries; read only where it was set before.
  thread_local std::vector<char> marks;
  marks.resize(static_cast<size_t>(tree_->block_count()) * kBlockPositions);
  const auto mark = [](int32_t slot) -> char& { return marks[slot]; };
  for (const int32_t slot : slots_) mark(slot) = kDrop;
  for (const BeamEntry& entry : beam) {
    for (int32_t slot = tree_->parent(entry.node); slot != TokenTree::kNone && mark(slot) == kDrop;
         slot = tree_->parent(slot))
      mark(slot) = kBefore;
  }
  for (const BeamEntry& entry : beam)
    if (!entry.finished) {
      mark(entry.node) = kAfter;
    } else if (mark(entry.node) == kDrop) {
      mark(entry.node) = kBefore;
    }
  for (const int32_t slot : slots_) {
    const int32_t parent = tree_->parent(slot);
    if (parent != TokenTree::kNone && mark(parent) == kAfter) mark(slot) = kAfter;
  }
  for (const int32_t slot : slots_)
    if (mark(slot) == kDrop) tree_->remove(slot);
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

namespace {

constexpr int64_t kNoRank = std::numeric_limits<int64_t>::min();

// An integer that orders tokens: greater for a greater log-prob, then for a lower id; the minimum
// for NaN.
int64_t rank_of(float log_prob, int32_t token) {
  if (std::isnan(log_prob)) return kNoRank;
  const float value = log_prob + 0.0F;  // -0 is 0
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const int32_t order = bits ^ ((bits >> 31) & 0x7fffffff);  // orders integers as the floats
  return static_cast<int64_t>(order) * (int64_t{1} << 32) + static_cast<uint32_t>(~token);
}

int64_t greatest(const int64_t* from, int32_t count) {
  int64_t most = from[0];
  for (int32_t i = 1; i < count; ++i) most = std::max(most, from[i]);
  return most;
}

}  // namespace

// Keeps the maximum of each group of about sqrt(vocab_size) tokens. No branch depends on a
// log-prob: an insertion into a sorted list would cost two mispredicted branches.
void best_tokens(const float* log_probs, int32_t vocab_size, int32_t count,
                 std::vector<Candidate>& out) {
  out.clear();
  if (std::isnan(log_probs[0])) return;
  int32_t group_size = 8;
  while (group_size * group_size < vocab_size) group_size *= 2;
  const int32_t group_count = (vocab_size + group_size - 1) / group_size;
  thread_local std::vector<int64_t> scratch;
  scratch.resize(static_cast<size_t>(group_count) * (static_cast<size_t>(group_size) + 1));
  int64_t* greatest_of = scratch.data();
  int64_t* ranks = greatest_of + group_count;
  for (int32_t token = 0; token < vocab_size; ++token)
    ranks[token] = rank_of(log_probs[token], token);
  std::fill(ranks + vocab_size, ranks + group_count * group_size, kNoRank);
  const auto look_at = [&](int32_t group) {
    greatest_of[group] = greatest(ranks + group * group_size, group_size);
  };
  for (int32_t group = 0; group < group_count; ++group) look_at(group);
  for (int32_t i = 0; i < count; ++i) {
    const int64_t best = greatest(greatest_of, group_count);
    if (best == kNoRank) break;
    const int32_t token = ~static_cast<int32_t>(static_cast<uint32_t>(best));
    out.push_back({token, log_probs[token]});
    ranks[token] = kNoRank;
    look_at(token / group_size);
  }
  if (!out.empty() && !std::isfinite(out.front().log_prob)) out.clear();
}

Hypothesis hypothesis(const TokenTree& tree, const BeamEntry& entry, double log_prob) {
  const int32_t node = entry.node;
  const bool finished = entry.finished != 0;
  return {tree.path(node), log_prob, finished, finished ? node : tree.parent(node)};
}

std::vector<Hypothesis> ranked_hypotheses(const TokenTree& tree, const Beam& beam, int32_t n_best) {
  std::vector<Hypothesis> hypotheses(std::min(beam.size(), static_cast<size_t>(n_best)));
  for (size_t i = 0; i < hypotheses.size(); ++i)
    hypotheses[i] = hypothesis(tree, beam[i], beam[i].log_prob);
  return hypotheses;
}

}  // namespace molspec
