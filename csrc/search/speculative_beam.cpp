// Speculative beam search of Andronov et al., J. Cheminform. 2025, "Speculative beam search" (SBS).
// Approximate: a long accepted draft can evict hypotheses that beam search keeps. Without drafts it
// is standard beam search.
//
// All drafts are scored after every live hypothesis. A draft token is accepted by its nucleus, if
// the model's log-probs after it are numbers. The draft with the most accepted tokens counts,
// the first among equals. Its extensions: at each accepted position the likeliest tokens except the
// draft's own, and all likeliest tokens after the last one. The best extensions of all hypotheses,
// of unequal lengths, are the next beam.
//
// Unlike the published code, a query's drafts and lists never depend on the rest of the batch,
// draft lengths below 5 are exact, and hypotheses that reach max_length are reported.

#include <algorithm>
#include <cmath>
#include <functional>

#include "search/ranking.h"

namespace molspec {
namespace {

// Accepts a draft token if it is among the likeliest beam_size tokens at its position and the more
// probable ones have less probability than `nucleus` together. `best` has the likeliest tokens in
// their order.
bool accept_nucleus(int32_t token_id, const std::vector<Candidate>& best, double nucleus) {
  double above = 0.0;
  for (const Candidate& each : best) {
    if (each.token_id == token_id) return true;
    above += std::exp(static_cast<double>(each.log_prob));
    if (above >= nucleus) return false;
  }
  return false;
}

// A candidate of the next beam: a likeliest token after an accepted position, except the accepted
// draft's own; or a hypothesis that has ended, unchanged.
struct Extension : RankedCandidate {
  static constexpr int32_t kCarried = -1;  // its token_id

  double log_prob;
  int32_t node;    // before the token
  int32_t length;  // including the token

  // Those of one hypothesis may have equal score and token: then the shorter one is first.
  bool before(const Extension& other) const {
    if (better(*this, other) || better(other, *this)) return better(*this, other);
    return length < other.length;
  }
};

// A rank of the beam. It keeps its memory for drafts, whichever hypothesis it has.
struct Entry : Head {
  int32_t length = 0;  // tokens, EOS counted
  bool finished = false;

  void set(int32_t its_node, double its_log_prob, int32_t its_length, bool its_end) {
    node = its_node;
    log_prob = its_log_prob;
    length = its_length;
    finished = its_end;
  }
};

class SpeculativeBeamSearch final : public Search {
 public:
  SpeculativeBeamSearch(const SpeculativeBeamSpec& spec, const Row& row)
      : Search(row, spec, spec.drafter), spec_(spec) {}

 private:
  void begin(const std::vector<int32_t>& /*source_ids*/) override {
    beam_.resize(1);
    beam_.front().set(root_, 0, prefix_length(), false);
  }
  void heads(std::vector<Head*>& out) override {
    for (Entry& each : beam_)
      if (continues(each)) out.push_back(&each);
  }
  bool accept(const StepLogProbs& log_probs) override {
    extensions_.clear();
    const bool numbers = std::ranges::all_of(
        heads_, [&](const Head* head) { return has_numbers(log_probs, head->node); });
    for (size_t i = 0; i < beam_.size() && numbers; ++i) {
      const auto rank = static_cast<int32_t>(i);
      if (!continues(beam_[i])) {
        carry(rank);
        continue;
      }
      accept(beam_[i], log_probs);
      decoded_.statistics.accepted_tokens += static_cast<int64_t>(path_.size()) - 1;
      decoded_.statistics.emitted_tokens += static_cast<int64_t>(path_.size());
      extend(rank, log_probs);
    }
    select();
    kept_.clear();
    bool live = false;
    for (const Entry& each : beam_) {
      kept_.push_back({each.node, false});
      live |= continues(each);
    }
    if (live) {
      nodes_.keep(kept_);
      return false;
    }
    if (!numbers) decoded_.error = kNoNumbers;
    decoded_.hypotheses = ranked_hypotheses(*row_.tree, beam_, spec_.n_best);
    return true;
  }

  bool continues(const Entry& each) const { return stop_.continues(each.finished, each.length); }
  double score(double log_prob, int32_t length) const {
    return beam_score(log_prob, length, spec_.length_penalty);
  }
  // Whether the model's log-probs after a node are numbers.
  static bool has_numbers(const StepLogProbs& log_probs, int32_t node) {
    const float* row = log_probs.after(node);
    return std::isfinite(*std::max_element(row, row + log_probs.vocab_size));
  }
  // The likeliest tokens after a hypothesis (kRoot) or a draft, ranked at their first use.
  const std::vector<Candidate>& likeliest(int32_t draft, int32_t node,
                                          const StepLogProbs& log_probs) {
    std::vector<Candidate>& best = best_[draft + 1];
    if (best.empty())
      best_tokens(log_probs.after(node), log_probs.vocab_size, spec_.beam_size, best);
    return best;
  }
  // Writes the accepted drafts, after kRoot, to `path_`.
  void accept(const Head& head, const StepLogProbs& log_probs) {
    const DraftTree& tree = head.drafts;
    const std::vector<int32_t>& slots = head.slots;
    best_.resize(std::max(best_.size(), slots.size() + 1));
    for (size_t i = 0; i <= slots.size(); ++i) best_[i].clear();
    depths_.assign(slots.size() + 1, TokenTree::kNone);  // of accepted drafts, kRoot before them
    int32_t* depths = depths_.data() + 1;
    depths[DraftTree::kRoot] = 0;
    int32_t deepest = DraftTree::kRoot;
    for (int32_t i = 0; i < tree.size(); ++i) {
      const int32_t parent = tree.parents[i];
      if (slots[i] == TokenTree::kNone || depths[parent] == TokenTree::kNone) continue;
      const int32_t before = parent == DraftTree::kRoot ? head.node : slots[parent];
      const std::vector<Candidate>& best = likeliest(parent, before, log_probs);
      if (!accept_nucleus(tree.token_ids[i], best, static_cast<double>(spec_.nucleus))) continue;
      if (!has_numbers(log_probs, slots[i])) continue;  // no score may be NaN
      depths[i] = depths[parent] + 1;
      if (depths[i] > depths[deepest]) deepest = i;
    }
    path_.clear();
    for (; deepest != DraftTree::kRoot; deepest = tree.parents[deepest]) path_.push_back(deepest);
    path_.push_back(DraftTree::kRoot);
    std::reverse(path_.begin(), path_.end());
  }
  void extend(int32_t rank, const StepLogProbs& log_probs) {
    const Entry& from = beam_[rank];
    double log_prob = from.log_prob;
    int32_t length = from.length, node = from.node;
    for (size_t depth = 0; depth < path_.size(); ++depth) {
      const bool last = depth + 1 == path_.size();
      const int32_t draft_token = last ? kNoToken : from.drafts.token_ids[path_[depth + 1]];
      ++length;
      for (const Candidate& next : likeliest(path_[depth], node, log_probs)) {
        if (next.token_id == draft_token) continue;
        const double total = log_prob + static_cast<double>(next.log_prob);
        extensions_.push_back({{score(total, length), rank, next.token_id}, total, node, length});
      }
      if (last) return;
      log_prob += static_cast<double>(log_probs.after(node)[draft_token]);
      node = from.slots[path_[depth + 1]];
    }
  }
  void carry(int32_t rank) {
    const Entry& from = beam_[rank];
    extensions_.push_back({{score(from.log_prob, from.length), rank, Extension::kCarried},
                           from.log_prob,
                           from.node,
                           from.length});
  }
  void select() {
    keep_best(extensions_, spec_.beam_size, std::mem_fn(&Extension::before));
    ends_.clear();
    for (const Extension& each : extensions_)
      ends_.push_back(each.token_id == Extension::kCarried ? beam_[each.parent_rank].finished
                                                           : stop_.finishes(each.token_id));
    beam_.resize(extensions_.size());
    for (size_t i = 0; i < beam_.size(); ++i) {
      const Extension& each = extensions_[i];
      // Nothing follows EOS: it needs no node.
      const bool is_new = each.token_id != Extension::kCarried && !ends_[i];
      const int32_t node = is_new ? nodes_.child_or_new(each.node, each.token_id) : each.node;
      beam_[i].set(node, each.log_prob, each.length, ends_[i]);
    }
  }

  SpeculativeBeamSpec spec_;
  std::vector<Entry> beam_;  // by rank
  // Scratch.
  std::vector<QueryNodes::Kept> kept_;
  std::vector<Extension> extensions_;
  std::vector<std::vector<Candidate>> best_;  // after the hypothesis, then each of its drafts
  std::vector<int32_t> path_, depths_;
  std::vector<bool> ends_;  // by extension
};

}  // namespace

std::unique_ptr<Search> SpeculativeBeamSpec::search(const Row& row) const {
  return std::make_unique<SpeculativeBeamSearch>(*this, row);
}

}  // namespace molspec
