// Greedy decoding and sampling, speculative or not: Andronov et al., J. Cheminform. 2025,
// "Speculative greedy decoding", with drafts merged into one tree.
//
// Each round verifies the drafts after the last emitted tokens, then emits the accepted ones and
// the model's next token. Lossless (rules/argmax.h), except for relaxed verification
// (rules/relaxed.h). A sample is greedy decoding on noisy log-probs (rules/noise.h), or is drawn by
// rejection sampling (rejection.h). Except there, the seed alone decides the samples of a query;
// the drafter only affects the time.

#include <unordered_map>
#include <variant>

#include "search/draft_ledger.h"
#include "search/rejection.h"
#include "search/sequence.h"

namespace molspec {
namespace {

class SequenceSearch final : public Search {
 public:
  SequenceSearch(const SequenceSpec& spec, const Row& row)
      : Search(row),
        spec_(spec),
        sampling_(std::get_if<Sampling>(&spec_.rule)),
        drafter_(make_drafter(spec.drafter, row_.guess)),
        ledger_(pays_for_paths(spec.drafter) ? row_.ledger : nullptr),
        sequences_(static_cast<size_t>(spec.samples)) {}

  void paths(std::vector<Path>& out) const override {
    if (drafter_) return;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const Sequence& sequence = sequences_[i];
      if (!sequence.live) continue;
      out.push_back({row_.index, sequence.token_ids, sequence.log_prob, newest(sequence.node)});
      if (sampling_) out.back().sampler = samplers_[i].of_drafter();
    }
  }

 private:
  void begin(const std::vector<int32_t>& source_ids) override {
    if (drafter_) drafter_->start(source_ids);
    Sequence first;
    first.node = root_;
    first.token_ids = prefix_;
    first.token_count = prefix_length();
    first.emitted_tokens = prefix_length();
    std::fill(sequences_.begin(), sequences_.end(), first);
    samplers_.clear();
    for (uint32_t i = 0; sampling_ && i < sequences_.size(); ++i)
      samplers_.emplace_back(*sampling_, query_key_, i);
  }

  int32_t stage(std::span<const DraftTree> proposed) override {
    for (const Sequence& sequence : sequences_)
      if (sequence.live) nodes_.stage(sequence.node);
    int32_t drafted = 0;  // summed over sequences, which may share nodes
    auto given = proposed.begin();
    own_drafts_.clear();
    for (Sequence& sequence : sequences_) {
      if (!sequence.live) continue;
      sequence.drafts = drafter_ ? &own_drafts(sequence) : &*given++;
      drafted += nodes_.stage(sequence.node, *sequence.drafts, spec_.max_length, sequence.placed);
    }
    return drafted;
  }

  bool accept(const StepLogProbs& log_probs) override {
    bool live = false;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (!sequences_[i].live) continue;
      if (accept(i, log_probs) == Verdict::kNoNumbers) {
        decoded_.error = kNoNumbers;
        live = false;
        break;
      }
      live |= sequences_[i].live;
    }
    if (!live) {
      finish();
      return true;
    }
    kept_.clear();
    for (const Sequence& sequence : sequences_)
      if (sequence.live || spec_.token_log_probs) kept_.push_back({sequence.node, false});
    nodes_.keep(kept_);
    for (Sequence& sequence : sequences_)
      if (sequence.live) sequence.grow(nodes_);
    return false;
  }

  void set_log_prob(double log_prob) override {
    for (Sequence& sequence : sequences_) sequence.log_prob = log_prob;
  }

  const DraftTree& own_drafts(const Sequence& sequence) {
    const auto [found, is_new] = own_drafts_.try_emplace(sequence.node);
    DraftTree& tree = found->second;
    if (!is_new) return tree;
    const size_t length = sequence.token_ids.size() + 1;
    if (!ledger_ || ledger_->pays(length)) drafter_->propose(sequence.token_ids, tree);
    if (ledger_) ledger_->draft(tree, length);
    return tree;
  }

  Verdict accept(size_t i, const StepLogProbs& log_probs) {
    Sequence& sequence = sequences_[i];
    const size_t length = sequence.token_ids.size() + 1;
    Chooser chooser(sampling_ ? &samplers_[i] : nullptr, *sequence.drafts);
    const auto choose = [&](const Sequence& at, const float* row) {
      return chooser.at(row, log_probs.vocab_size(), at.token_ids.size());
    };
    const Verdict verdict =
        verify(sequence, log_probs, row_.eos(), spec_.max_length, choose, spec_.rule);
    if (ledger_ && !sequence.accepted.empty())
      ledger_->confirm(sequence.accepted.size() - 1, length);
    return verdict;
  }

  void finish() {
    for (Sequence& sequence : sequences_) {
      decoded_.statistics.accepted_tokens += sequence.accepted_tokens;
      decoded_.statistics.emitted_tokens += sequence.emitted_tokens - prefix_length();
      if (!decoded_.error.empty()) continue;
      decoded_.hypotheses.push_back({std::move(sequence.token_ids), sequence.log_prob,
                                     sequence.finished != 0, sequence.node});
      if (std::holds_alternative<Relaxed>(spec_.rule))
        decoded_.hypotheses.back().tolerated = sequence.tolerated_tokens;
    }
  }

  SequenceSpec spec_;
  const Sampling* sampling_;                           // of the spec, or null
  std::unique_ptr<Drafter> drafter_;                   // null if an external drafter drafts
  DraftLedger* ledger_;                                // null if drafts need not pay
  std::vector<Sequence> sequences_;                    // the greedy answer, or the samples
  std::vector<Sampler> samplers_;                      // of the sequences
  std::unordered_map<int32_t, DraftTree> own_drafts_;  // after a node
  std::vector<QueryNodes::Kept> kept_;                 // scratch
};

}  // namespace

std::unique_ptr<Search> SequenceSpec::search(const Row& row) const {
  return std::make_unique<SequenceSearch>(*this, row);
}

}  // namespace molspec
