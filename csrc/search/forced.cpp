// Forced decoding: computes the log-prob of a given target in one decoder pass. The sum is that of
// greedy and beam search, to the bit: float64, in the order of the tokens.

#include <cmath>
#include <utility>

#include "search/search.h"

namespace molspec {
namespace {

class ForcedSearch final : public Search {
 public:
  ForcedSearch(const ForcedSpec& spec, Row row) : Search(std::move(row)), spec_(spec) {}

  // Takes the target in place of a source.
  void begin(const std::vector<int32_t>& target_ids) override {
    const size_t length = target_ids.size() + 1;
    if (length > static_cast<size_t>(spec_.max_length))
      throw_invalid("target has ", length, " tokens, EOS counted: expected at most max_length ",
                    spec_.max_length);
    target_ids_ = target_ids;
  }

  void plan(const DraftTree*& /*proposed*/) override {
    last_ = row_.add(TokenTree::kNone, row_.bos());
    row_.tree->stage(row_.index, last_);
    for (const int32_t token_id : target_ids_) {
      last_ = row_.add(last_, token_id);
      row_.tree->stage(row_.index, last_);
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
      decoded_.hypotheses.push_back({std::move(target_ids_), log_prob, true, last_});
    } else {
      decoded_.error = kNoNumbers;
    }
    return true;
  }

 private:
  void set_log_prob(double /*log_prob*/) override {}  // a given target has no prefix

  ForcedSpec spec_;
  std::vector<int32_t> target_ids_;
  int32_t last_ = TokenTree::kNone;  // node
};

}  // namespace

std::unique_ptr<Search> ForcedSpec::search(const Row& row) const {
  return std::make_unique<ForcedSearch>(*this, row);
}

}  // namespace molspec
