// Forced decoding: given targets are the drafts, and all of them are accepted, so one decoder pass
// computes the log-probs of all targets.

#include <limits>
#include <utility>

#include "common/require.h"
#include "search/sequence.h"

namespace molspec {
namespace {

class ForcedSearch final : public Search {
 public:
  ForcedSearch(const ForcedSpec& spec, const Row& row)
      : Search(row, spec, NoDraftOptions()), spec_(spec) {}

 private:
  // Takes the targets in place of a source, with EOS between them.
  void begin(const std::vector<int32_t>& target_ids) override {
    impossible_ = false;
    targets_.clear();
    add();
    for (const int32_t token_id : target_ids) {
      DraftTree& target = targets_.back().drafts;
      if (token_id == row_.eos())
        add();
      else
        target.add(token_id, target.size() - 1, 0);
    }
    for (const Sequence& target : targets_)
      if (target.drafts.size() >= spec_.max_length)
        throw_invalid("target has ", target.drafts.size() + 1,
                      " tokens, EOS counted: expected at most max_length ", spec_.max_length);
  }
  void add() {
    Sequence& target = targets_.emplace_back();
    target.node = root_;
    target.rule = [this](const Fork& fork) { return given(fork); };
  }
  // Takes the drafts, whatever the model says, then EOS.
  Drawn given(const Fork& fork) {
    const DraftTree& target = fork.head.drafts;
    const auto at = static_cast<int32_t>(fork.length);
    const int32_t token_id = at < target.size() ? target.token_ids[at] : row_.eos();
    impossible_ |= fork.log_probs[token_id] == -std::numeric_limits<float>::infinity();
    return {token_id, fork.log_probs[token_id]};
  }

  void heads(std::vector<Head*>& out) override {
    for (Sequence& target : targets_) out.push_back(&target);
  }
  void draft(Head& /*head*/) override {}  // they are given

  bool accept(const StepLogProbs& log_probs) override {
    decoded_.statistics.drafted_tokens = 0;  // they were given
    for (Sequence& target : targets_) {
      verify(target, log_probs, stop_);
      decoded_.statistics.emitted_tokens += target.emitted_tokens;
      if (target.finished)
        decoded_.hypotheses.push_back(
            {std::move(target.token_ids), target.log_prob, true, target.node});
    }
    if (decoded_.hypotheses.empty()) decoded_.error = impossible_ ? kImpossibleTarget : kNoNumbers;
    return true;
  }

  ForcedSpec spec_;
  std::vector<Sequence> targets_;
  bool impossible_ = false;  // the model gives a token no probability
};

}  // namespace

std::unique_ptr<Search> ForcedSpec::search(const Row& row) const {
  return std::make_unique<ForcedSearch>(*this, row);
}

}  // namespace molspec
