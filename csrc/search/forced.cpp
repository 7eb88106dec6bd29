// Forced decoding: computes the log-prob of a given target in one decoder pass. The sum is that of
// greedy and beam search, to the bit: float64, in the order of the tokens.

#include <cmath>

#include "search/search.h"

namespace molspec {
namespace {

class ForcedSearch final : public Search {
 public:
  using Search::Search;

  // Takes the target in place of a source.
  void begin(const std::vector<int32_t>& target_ids) override { target_ids_ = target_ids; }

  void plan(const DraftTree*& /*proposed*/) override {
    int32_t slot = row_.add(TokenTree::kNone, row_.bos());
    row_.tree->stage(row_.index, slot);
    for (const int32_t token_id : target_ids_) {
      slot = row_.add(slot, token_id);
      row_.tree->stage(row_.index, slot);
    }
    count_staged(target_ids_.size() + 1, 0);
  }

  bool advance(const float* log_probs, int32_t vocab_size) override {
    double log_prob = 0;
    for (const int32_t token_id : target_ids_) {
      log_prob += static_cast<double>(log_probs[token_id]);
      log_probs += vocab_size;
    }
    log_prob += static_cast<double>(log_probs[row_.eos()]);
    decoded_.statistics.emitted_tokens = static_cast<int64_t>(target_ids_.size()) + 1;
    if (std::isfinite(log_prob)) {
      decoded_.hypotheses.push_back({std::move(target_ids_), log_prob, true});
    } else {
      decoded_.error = kNoNumbers;
    }
    return true;
  }

 private:
  std::vector<int32_t> target_ids_;
};

}  // namespace

std::unique_ptr<Search> ForcedSpec::search(const Row& row) const {
  return std::make_unique<ForcedSearch>(row);
}

}  // namespace molspec
