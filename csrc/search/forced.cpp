// Forced decoding: greedy decoding whose tokens are given, with the targets as its drafts, so one
// decoder pass computes the log-probs of all of them.

#include <limits>
#include <utility>

#include "common/require.h"
#include "search/sequence.h"

namespace molspec {
namespace {

class ForcedSearch final : public Search {
 public:
  ForcedSearch(const ForcedSpec& spec, const Row& row) : Search(row), spec_(spec) {}

 private:
  // Takes the targets in place of a source, with EOS between them.
  void begin(const std::vector<int32_t>& target_ids) override {
    targets_.assign(1, {});
    for (const int32_t token_id : target_ids) {
      if (token_id == row_.eos())
        targets_.emplace_back();
      else
        targets_.back().add(token_id, targets_.back().size() - 1, 0);
    }
    for (const DraftTree& target : targets_)
      if (target.size() >= spec_.max_length)
        throw_invalid("target has ", target.size() + 1,
                      " tokens, EOS counted: expected at most max_length ", spec_.max_length);
  }

  int32_t stage(std::span<const DraftTree> /*proposed*/) override {
    nodes_.stage(root_);
    for (const DraftTree& target : targets_) nodes_.stage(root_, target, spec_.max_length, placed_);
    return 0;
  }

  bool accept(const StepLogProbs& log_probs) override {
    bool impossible = false;
    for (const DraftTree& target : targets_) {
      const auto given = [&](const Sequence& at, const float* row) {
        const int32_t place = at.token_count;
        const int32_t token_id = place < target.size() ? target.token_ids[place] : row_.eos();
        impossible |= row[token_id] == -std::numeric_limits<float>::infinity();
        return Drawn{token_id, row[token_id]};
      };
      Sequence sequence;
      sequence.node = root_;
      verify(sequence, log_probs, row_.eos(), spec_.max_length, given);
      decoded_.statistics.emitted_tokens += sequence.emitted_tokens;
      if (sequence.finished)
        decoded_.hypotheses.push_back(
            {std::move(sequence.token_ids), sequence.log_prob, true, sequence.node});
    }
    if (decoded_.hypotheses.empty()) decoded_.error = impossible ? kImpossibleTarget : kNoNumbers;
    return true;
  }

  void set_log_prob(double /*log_prob*/) override {}  // a given target has no prefix

  ForcedSpec spec_;
  std::vector<DraftTree> targets_;  // chains
  std::vector<int32_t> placed_;     // scratch
};

}  // namespace

std::unique_ptr<Search> ForcedSpec::search(const Row& row) const {
  return std::make_unique<ForcedSearch>(*this, row);
}

}  // namespace molspec
