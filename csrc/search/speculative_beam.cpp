// Speculative beam search of Andronov et al., J. Cheminform. 2025, "Speculative beam search" (SBS).
// Approximate: a long accepted draft can evict hypotheses that beam search keeps. Without drafts it
// is standard beam search.
//
// All drafts are scored after every live hypothesis. A draft token is accepted by nucleus.h
// if the model's log-probs after it are numbers. The draft with the most accepted tokens counts,
// the first among equals. Its leaves: at each accepted position the likeliest tokens except the
// draft's own, and all likeliest tokens after the last one. The best leaves of all hypotheses, of
// unequal lengths, are the next beam.
//
// Unlike the published code, a query's drafts and lists never depend on the rest of the batch,
// draft lengths below 5 are exact, and hypotheses that reach max_length are reported.

#include <algorithm>
#include <cmath>
#include <utility>

#include "search/beam_nodes.h"
#include "search/nucleus.h"

namespace molspec {
namespace {

class SpeculativeBeamSearch final : public Search {
 public:
  SpeculativeBeamSearch(const SpeculativeBeamSpec& spec, Row row)
      : Search(std::move(row)),
        spec_(spec),
        drafter_(make_drafter(spec.drafter, row_.guess)),
        nodes_(row_) {}

  void begin(const std::vector<int32_t>& source_ids) override {
    if (drafter_) drafter_->start(source_ids);
    nodes_.clear();
    beam_.assign(1, first_entry(add_root([&](int32_t parent, int32_t token_id) {
                   return nodes_.add(parent, token_id);
                 })));
    beam_.front().length = prefix_length();
  }
  void paths(std::vector<Path>& out) const override {
    if (drafter_) return;
    for (const BeamEntry& entry : beam_)
      if (continues(entry)) out.push_back(path(entry.node, entry.log_prob));
  }
  void plan(const DraftTree*& proposed) override {
    staged_.clear();
    for (const BeamEntry& entry : beam_) {
      if (!continues(entry)) continue;
      if (drafter_) drafter_->propose(row_.tree->path(entry.node), drafts_);
      staged_.push_back(placed(entry.node, drafter_ ? drafts_ : *proposed++));
    }
    size_t nodes = 0;
    for (const Staged& staged : staged_) {
      for (const int32_t slot : staged) row_.tree->stage(row_.index, slot);
      nodes += staged.size();
    }
    count_staged(nodes, nodes - staged_.size());
  }
  bool advance(const float* log_probs, int32_t vocab_size) override {
    leaves_.clear();
    const bool numbers = has_numbers_after_all(log_probs, vocab_size);
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
      log_probs += static_cast<int64_t>(staged->size()) * vocab_size;
      ++staged;
    }
    select();
    if (std::any_of(beam_.begin(), beam_.end(), [&](const BeamEntry& e) { return continues(e); })) {
      nodes_.collect(beam_);
      return false;
    }
    if (!numbers) decoded_.error = kNoNumbers;
    decoded_.hypotheses = ranked_hypotheses(*row_.tree, beam_, spec_.n_best);
    return true;
  }

 private:
  // The staged nodes of one hypothesis: its last token, then its drafts. A node's row in the tree
  // is its place here.
  using Staged = std::vector<int32_t>;

  void set_log_prob(double log_prob) override { beam_.front().log_prob = log_prob; }
  bool continues(const BeamEntry& entry) const { return entry.continues(spec_.max_length); }
  double score(double log_prob, int32_t length) const {
    return beam_score(log_prob, length, spec_.length_penalty);
  }
  // Whether the model's log-probs after a node are numbers.
  static bool has_numbers(const float* row, int32_t vocab_size) {
    return std::isfinite(*std::max_element(row, row + vocab_size));
  }
  // The same after the last tokens of all hypotheses.
  bool has_numbers_after_all(const float* log_probs, int32_t vocab_size) const {
    for (const Staged& hypothesis : staged_) {
      if (!has_numbers(log_probs, vocab_size)) return false;
      log_probs += static_cast<int64_t>(hypothesis.size()) * vocab_size;
    }
    return true;
  }
  // The last token and the drafts after it, in their order.
  Staged placed(int32_t last, const DraftTree& drafts) {
    Staged staged;
    const auto add = [&](int32_t slot) {
      row_.tree->set_row(slot, static_cast<int32_t>(staged.size()));
      staged.push_back(slot);
      return slot;
    };
    add(last);
    nodes_.place(last, drafts, spec_.max_length, places_, [&](int32_t parent, int32_t token_id) {
      return add(nodes_.add(parent, token_id));
    });
    return staged;
  }
  // The accepted path as indices in `staged`, from the last token on.
  void accept(const Staged& staged, const float* log_probs, int32_t vocab_size) {
    depths_.assign(staged.size(), TokenTree::kNone);  // of accepted nodes
    depths_.front() = 0;
    size_t deepest = 0;
    const auto row = [&](int64_t node) { return log_probs + node * vocab_size; };
    const auto parent_of = [&](size_t i) { return row_.tree->row(row_.tree->parent(staged[i])); };
    for (size_t i = 1; i < staged.size(); ++i) {
      const int32_t parent = parent_of(i);
      if (depths_[parent] == TokenTree::kNone) continue;
      best_tokens(row(parent), vocab_size, spec_.beam_size, best_);
      const int32_t token_id = row_.tree->token_id(staged[i]);
      if (!accept_nucleus(token_id, best_, static_cast<double>(spec_.nucleus))) continue;
      if (!has_numbers(row(i), vocab_size)) continue;  // no leaf's score may be NaN
      depths_[i] = depths_[parent] + 1;
      if (depths_[i] > depths_[deepest]) deepest = i;
    }
    path_.assign(1, static_cast<int32_t>(deepest));
    while (path_.back() != 0) path_.push_back(parent_of(static_cast<size_t>(path_.back())));
    std::reverse(path_.begin(), path_.end());
  }
  void add_leaves(int32_t rank, const Staged& staged, const float* log_probs, int32_t vocab_size) {
    const BeamEntry& entry = beam_[rank];
    double log_prob = entry.log_prob;
    for (size_t depth = 0; depth < path_.size(); ++depth) {
      const int32_t at = path_[depth];
      const float* row = log_probs + int64_t{at} * vocab_size;
      const bool last = depth + 1 == path_.size();
      const int32_t draft_token = last ? kNoToken : row_.tree->token_id(staged[path_[depth + 1]]);
      const int32_t length = entry.length + static_cast<int32_t>(depth) + 1;
      best_tokens(row, vocab_size, spec_.beam_size, best_);
      for (const Candidate& next : best_) {
        if (next.token == draft_token) continue;
        const double total = log_prob + static_cast<double>(next.log_prob);
        leaves_.push_back({{score(total, length), rank, next.token}, total, staged[at], length});
      }
      if (!last) log_prob += static_cast<double>(row[draft_token]);
    }
  }
  void carry(int32_t rank) {
    const BeamEntry& entry = beam_[rank];
    leaves_.push_back({{score(entry.log_prob, entry.length), rank, Leaf::kCarried},
                       entry.log_prob,
                       entry.node,
                       entry.length});
  }
  void select() {
    const auto before = [](const Leaf& left, const Leaf& right) { return left.before(right); };
    keep_best(leaves_, spec_.beam_size, before);
    next_.clear();
    for (const Leaf& leaf : leaves_) {
      BeamEntry entry = first_entry(leaf.node);
      entry.length = leaf.length;
      entry.log_prob = leaf.log_prob;
      if (leaf.token_id == Leaf::kCarried) {
        entry.finished = beam_[leaf.parent_rank].finished;
      } else if (leaf.token_id == row_.eos()) {
        entry.finished = 1;  // nothing follows EOS: it needs no node
      } else {
        entry.node = nodes_.child_or_new(leaf.node, leaf.token_id);
      }
      next_.push_back(entry);
    }
    beam_.swap(next_);
  }

  SpeculativeBeamSpec spec_;
  std::unique_ptr<Drafter> drafter_;  // null if an external drafter drafts
  Beam beam_, next_;
  BeamNodes nodes_;
  std::vector<Staged> staged_;  // by live hypothesis
  // Scratch.
  DraftTree drafts_;
  std::vector<Leaf> leaves_;
  std::vector<Candidate> best_;
  std::vector<int32_t> path_, depths_, places_;
};

}  // namespace

std::unique_ptr<Search> SpeculativeBeamSpec::search(const Row& row) const {
  return std::make_unique<SpeculativeBeamSearch>(*this, row);
}

}  // namespace molspec
