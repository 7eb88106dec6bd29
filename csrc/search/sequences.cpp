// Greedy decoding and sampling, speculative or not: Andronov et al., J. Cheminform. 2025,
// "Speculative greedy decoding", with drafts merged into one tree.
//
// Each round verifies the drafts after the last emitted tokens, then emits the accepted ones and
// one more token. Which tokens, the rule says (rule.h).

#include <variant>

#include "search/draft_ledger.h"
#include "search/sequence.h"

namespace molspec {
namespace {

class SequenceSearch final : public Search {
 public:
  SequenceSearch(const SequenceSpec& spec, const Row& row)
      : Search(row, spec, spec.drafter),
        spec_(spec),
        sequences_(static_cast<size_t>(spec.samples)) {
    if (pays_for_paths(spec.drafter)) ledger_ = row.ledger;
  }

 private:
  void begin(const std::vector<int32_t>& /*source_ids*/) override {
    const auto* sampling = std::get_if<Sampling>(&spec_.rule);
    uint32_t sample = 0;
    for (Sequence& sequence : sequences_) {
      std::optional<Sampler> sampler;
      if (sampling) sampler.emplace(*sampling, query_key_, sample++);
      sequence = {};
      sequence.node = root_;
      sequence.token_ids = prefix_;
      sequence.token_count = prefix_length();
      sequence.emitted_tokens = prefix_length();
      sequence.rule = rule_of(spec_.rule, sampler);
      if (sampler) sequence.sampler = sampler->of_drafter();
    }
  }

  void heads(std::vector<Head*>& out) override {
    for (Sequence& sequence : sequences_)
      if (sequence.live) out.push_back(&sequence);
  }

  bool accept(const StepLogProbs& log_probs) override {
    bool live = false;
    for (Sequence& sequence : sequences_) {
      if (!sequence.live) continue;
      const size_t length = sequence.token_ids.size() + 1;
      const Verdict verdict = verify(sequence, log_probs, stop_);
      if (ledger_ && !sequence.accepted.empty())
        ledger_->confirm(sequence.accepted.size() - 1, length);
      if (verdict == Verdict::kNoNumbers) {
        decoded_.error = kNoNumbers;
        live = false;
        break;
      }
      live |= sequence.live;
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
  std::vector<Sequence> sequences_;     // the greedy answer, or the samples
  std::vector<QueryNodes::Kept> kept_;  // scratch
};

}  // namespace

std::unique_ptr<Search> SequenceSpec::search(const Row& row) const {
  return std::make_unique<SequenceSearch>(*this, row);
}

}  // namespace molspec
