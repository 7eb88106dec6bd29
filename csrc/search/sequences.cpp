// Greedy decoding and sampling, speculative or not: Andronov et al., J. Cheminform. 2025,
// "Speculative greedy decoding", with drafts merged into one tree.
//
// Each round verifies the drafts after the last emitted tokens; the accepted ones and the model's
// next tokens are emitted. Lossless (rules/argmax.h) but where relaxed verification is requested
// (rules/relaxed.h). A sample is greedy decoding whose argmax is of noisy log-probs
// (rules/noise.h), or one by rejection (rejection.h). Given the seed, the samples of a query are
// one list: who drafts changes the time alone.

#include <unordered_map>

#include "search/rejection.h"
#include "search/sequence_group.h"

namespace molspec {
namespace {

class SequenceSearch final : public Search {
 public:
  SequenceSearch(const GreedySpec& spec, Row row)
      : SequenceSearch(1, spec.max_length, spec.drafter, std::move(row)) {
    relaxed_ = spec.relaxed;
  }
  SequenceSearch(const SampleSpec& spec, Row row)
      : SequenceSearch(spec.samples, spec.max_length, spec.drafter, std::move(row)) {
    sampling_ = spec.sampling;
    rejection_ = spec.rejection;
  }

  void begin(const std::vector<int32_t>& source_ids) override {
    if (drafter_) drafter_->start(source_ids);
    Sequence first;
    first.node = group_.begin();
    std::fill(sequences_.begin(), sequences_.end(), first);
    samplers_.clear();
    for (uint32_t i = 0; sampling_ && i < sequences_.size(); ++i)
      samplers_.emplace_back(*sampling_, query_key_, i, rejection_);
  }

  void paths(std::vector<Path>& out) const override {
    if (drafter_) return;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const Sequence& sequence = sequences_[i];
      if (!sequence.live) continue;
      out.push_back(
          {row_.index, sequence.token_ids, sequence.log_prob, row_.tree->parent(sequence.node)});
      if (sampling_) out.back().sampler = samplers_[i].of_drafter();
    }
  }

  void plan(const DraftTree* proposed) override {
    group_.unstage();
    for (const Sequence& sequence : sequences_)
      if (sequence.live) group_.stage(sequence.node);
    size_t drafted = 0;  // each sequence's count, though they may be shared
    own_drafts_.clear();
    for (size_t i = 0; i < sequences_.size(); ++i) {
      const Sequence& sequence = sequences_[i];
      if (!sequence.live) continue;
      drafts_[i] = drafter_ ? &own_drafts(sequence) : proposed++;
      drafted += static_cast<size_t>(group_.stage(sequence.node, *drafts_[i], max_length_));
    }
    group_.submit();
    count_staged(group_.staged_count(), drafted);
  }

  bool advance(const float* log_probs, int32_t vocab_size) override {
    live_.clear();
    for (size_t i = 0; i < sequences_.size(); ++i) {
      Sequence& sequence = sequences_[i];
      if (!sequence.live) continue;
      if (advance(i, log_probs, vocab_size) == Verdict::kNoNumbers) {
        decoded_.error = kNoNumbers;
        break;
      }
      if (sequence.live) live_.push_back(sequence.node);
    }
    if (live_.empty() || !decoded_.error.empty()) {
      finish();
      return true;
    }
    group_.keep(live_, false);
    for (Sequence& sequence : sequences_)
      if (sequence.live) group_.grow(sequence);
    return false;
  }

 private:
  SequenceSearch(int32_t count, int32_t max_length, const DrafterOptions& drafter, Row row)
      : Search(std::move(row)),
        max_length_(max_length),
        drafter_(make_drafter(drafter, row_.model)),
        group_(row_),
        sequences_(static_cast<size_t>(count)),
        drafts_(sequences_.size()) {}

  const DraftTree& own_drafts(const Sequence& sequence) {
    const auto [found, is_new] = own_drafts_.try_emplace(sequence.node);
    if (is_new) drafter_->propose(sequence.token_ids, found->second);
    return found->second;
  }

  Verdict advance(size_t i, const float* log_probs, int32_t vocab_size) {
    const auto take = [&](const auto& choose) {
      return group_.advance(sequences_[i], log_probs, vocab_size, max_length_, choose,
                            relaxed_ ? &*relaxed_ : nullptr);
    };
    if (!sampling_)
      return take([&](const Sequence&, const float* row) { return likeliest(row, vocab_size); });
    Rejection rejection(samplers_[i], *drafts_[i]);
    return take([&](const Sequence& at, const float* row) {
      const auto position = static_cast<uint32_t>(at.token_ids.size());
      return rejection_ ? rejection.at(row, vocab_size, position)
                        : samplers_[i].at(row, vocab_size, position);
    });
  }

  void finish() {
    for (Sequence& sequence : sequences_) {
      decoded_.statistics.accepted_tokens += sequence.accepted_tokens;
      decoded_.statistics.emitted_tokens += sequence.emitted_tokens;
      if (!decoded_.error.empty()) continue;
      decoded_.hypotheses.push_back(
          {std::move(sequence.token_ids), sequence.log_prob, sequence.finished != 0});
      if (relaxed_) decoded_.hypotheses.back().tolerated = sequence.tolerated_tokens;
    }
  }

  int32_t max_length_;
  std::unique_ptr<Drafter> drafter_;  // none where drafts come from outside
  std::optional<Relaxed> relaxed_;    // of greedy decoding
  std::optional<Sampling> sampling_;  // of samples
  bool rejection_ = false;
  SequenceGroup group_;
  std::vector<Sequence> sequences_;                    // the greedy one, or a sample each
  std::vector<Sampler> samplers_;                      // of the sequences
  std::vector<const DraftTree*> drafts_;               // of the sequences, in this round
  std::unordered_map<int32_t, DraftTree> own_drafts_;  // after a node
  std::vector<int32_t> live_;                          // scratch
};

}  // namespace

std::unique_ptr<Search> GreedySpec::search(const Row& row) const {
  return std::make_unique<SequenceSearch>(*this, row);
}

std::unique_ptr<Search> SampleSpec::search(const Row& row) const {
  return std::make_unique<SequenceSearch>(*this, row);
}

}  // namespace molspec
