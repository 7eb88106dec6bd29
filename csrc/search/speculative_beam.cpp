// Speculative beam search of Andronov et al., J. Cheminform. 2025, "Speculative beam search" (SBS).
// Approximate: a long accepted draft can evict hypotheses that beam search keeps. Without drafts it
// is standard beam search.
//
// All drafts are scored after every live hypothesis. A draft token is accepted by its nucleus, if
// the model's log-probs after it are numbers. The draft with the most accepted tokens counts,
// the first among equals. Its leaves: at each accepted position the likeliest tokens except the
// draft's own, and all likeliest tokens after the last one. The best leaves of all hypotheses, of
// unequal lengths, are the next beam.
//
// Unlike the published code, a query's drafts and lists never depend on the rest of the batch,
// draft lengths below 5 are exact, and hypotheses that reach max_length are reported.

#include <algorithm>
#include <cmath>
#include <utility>

#include "search/ranking.h"

namespace molspec {
namespace {

// Accepts a draft token if it is among the likeliest beam_size tokens at its position and the more
// probable ones have less probability than `nucleus` together. `best` has the likeliest tokens in
// their order.
bool accept_nucleus(int32_t token_id, const std::vector<Candidate>& best, double nucleus) {
  double above = 0.0;
  for (const Candidate& each : best) {
    if (each.token == token_id) return true;
    above += std::exp(static_cast<double>(each.log_prob));
    if (above >= nucleus) return false;
  }
  return false;
}

// A candidate of the next beam: a likeliest token after an accepted position, except the accepted
// draft's own; or a hypothesis that has ended, unchanged.
struct Leaf : RankedCandidate {
  static constexpr int32_t kCarried = -1;  // its token_id

  double log_prob;
  int32_t node;    // before the token
  int32_t length;  // including the token

  // Leaves of one hypothesis may have equal score and token: then the shorter one is first.
  bool before(const Leaf& other) const {
    if (better(*this, other) || better(other, *this)) return better(*this, other);
    return length < other.length;
  }
};

class SpeculativeBeamSearch final : public Search {
 public:
  SpeculativeBeamSearch(const SpeculativeBeamSpec& spec, const Row& row)
      : Search(row), spec_(spec), drafter_(make_drafter(spec.drafter, row_.guess)) {}

  void paths(std::vector<Path>& out) const override {
    if (drafter_) return;
    for (const BeamEntry& entry : beam_)
      if (continues(entry)) out.push_back(path(entry.node, entry.log_prob));
  }

 private:
  // The drafts after a live hypothesis, and their slots.
  struct Drafted {
    DraftTree tree;
    std::vector<int32_t> slots;
  };

  void begin(const std::vector<int32_t>& source_ids) override {
    if (drafter_) drafter_->start(source_ids);
    beam_.assign(1, first_entry(root_, prefix_length()));
  }
  int32_t stage(std::span<const DraftTree> proposed) override {
    int32_t count = 0;
    auto given = proposed.begin();
    drafted_.resize(beam_.size());
    for (size_t i = 0; i < beam_.size(); ++i) {
      if (!continues(beam_[i])) continue;
      const int32_t last = beam_[i].node;
      auto& [tree, slots] = drafted_[i];
      if (drafter_)
        drafter_->propose(row_.tree->path(last), tree);
      else
        tree = *given++;
      nodes_.stage(last);
      count += nodes_.stage(last, tree, spec_.max_length, slots);
    }
    return count;
  }
  bool accept(const StepLogProbs& log_probs) override {
    leaves_.clear();
    const bool numbers = std::all_of(beam_.begin(), beam_.end(), [&](const BeamEntry& entry) {
      return !continues(entry) || has_numbers(log_probs, entry.node);
    });
    for (size_t i = 0; i < beam_.size() && numbers; ++i) {
      const auto rank = static_cast<int32_t>(i);
      if (!continues(beam_[i])) {
        carry(rank);
        continue;
      }
      accept(beam_[i].node, drafted_[i], log_probs);
      decoded_.statistics.accepted_tokens += static_cast<int64_t>(path_.size()) - 1;
      decoded_.statistics.emitted_tokens += static_cast<int64_t>(path_.size());
      add_leaves(rank, log_probs);
    }
    select();
    kept_.clear();
    bool live = false;
    for (const BeamEntry& entry : beam_) {
      kept_.push_back({entry.node, false});
      live |= continues(entry);
    }
    if (live) {
      nodes_.keep(kept_);
      return false;
    }
    if (!numbers) decoded_.error = kNoNumbers;
    decoded_.hypotheses = ranked_hypotheses(*row_.tree, beam_, spec_.n_best);
    return true;
  }
  void set_log_prob(double log_prob) override { beam_.front().log_prob = log_prob; }

  bool continues(const BeamEntry& entry) const { return entry.continues(spec_.max_length); }
  double score(double log_prob, int32_t length) const {
    return beam_score(log_prob, length, spec_.length_penalty);
  }
  // Whether the model's log-probs after a node are numbers.
  static bool has_numbers(const StepLogProbs& log_probs, int32_t node) {
    const float* row = log_probs.after(node);
    return std::isfinite(*std::max_element(row, row + log_probs.vocab_size()));
  }
  // Writes the accepted nodes, from the last token on, to `path_`.
  void accept(int32_t last, const Drafted& drafted, const StepLogProbs& log_probs) {
    const auto& [tree, slots] = drafted;
    const auto slot = [&](int32_t draft) {
      return draft == DraftTree::kRoot ? last : slots[draft];
    };
    depths_.assign(slots.size() + 1, TokenTree::kNone);  // of accepted drafts, kRoot before them
    int32_t* depths = depths_.data() + 1;
    depths[DraftTree::kRoot] = 0;
    int32_t deepest = DraftTree::kRoot;
    for (int32_t i = 0; i < tree.size(); ++i) {
      const int32_t parent = tree.parents[i];
      if (slots[i] == TokenTree::kNone || depths[parent] == TokenTree::kNone) continue;
      best_tokens(log_probs.after(slot(parent)), log_probs.vocab_size(), spec_.beam_size, best_);
      const int32_t token_id = tree.token_ids[i];
      if (!accept_nucleus(token_id, best_, static_cast<double>(spec_.nucleus))) continue;
      if (!has_numbers(log_probs, slots[i])) continue;  // no leaf's score may be NaN
      depths[i] = depths[parent] + 1;
      if (depths[i] > depths[deepest]) deepest = i;
    }
    path_.clear();
    for (int32_t at = deepest; at != DraftTree::kRoot; at = tree.parents[at])
      path_.push_back(slots[at]);
    path_.push_back(last);
    std::reverse(path_.begin(), path_.end());
  }
  void add_leaves(int32_t rank, const StepLogProbs& log_probs) {
    const BeamEntry& entry = beam_[rank];
    double log_prob = entry.log_prob;
    for (size_t depth = 0; depth < path_.size(); ++depth) {
      const float* row = log_probs.after(path_[depth]);
      const bool last = depth + 1 == path_.size();
      const int32_t draft_token = last ? kNoToken : row_.tree->token_id(path_[depth + 1]);
      const int32_t length = entry.length + static_cast<int32_t>(depth) + 1;
      best_tokens(row, log_probs.vocab_size(), spec_.beam_size, best_);
      for (const Candidate& next : best_) {
        if (next.token == draft_token) continue;
        const double total = log_prob + static_cast<double>(next.log_prob);
        leaves_.push_back({{score(total, length), rank, next.token}, total, path_[depth], length});
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
      BeamEntry entry = first_entry(leaf.node, leaf.length);
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
  std::vector<Drafted> drafted_;  // by rank
  // Scratch.
  std::vector<QueryNodes::Kept> kept_;
  std::vector<Leaf> leaves_;
  std::vector<Candidate> best_;
  std::vector<int32_t> path_, depths_;
};

}  // namespace

std::unique_ptr<Search> SpeculativeBeamSpec::search(const Row& row) const {
  return std::make_unique<SpeculativeBeamSearch>(*this, row);
}

}  // namespace molspec
