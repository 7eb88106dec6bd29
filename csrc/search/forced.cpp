// Forced decoding: computes the log-probs of given targets in one decoder pass, as a tree of their
// common beginnings. A sum is that of greedy and beam search, to the bit: float64, in the order of
// the tokens.

#include <cmath>
#include <utility>

#include "search/search.h"

namespace molspec {
namespace {

class ForcedSearch final : public Search {
 public:
  ForcedSearch(const ForcedSpec& spec, Row row) : Search(std::move(row)), spec_(spec) {}

  // Takes the targets in place of a source, with EOS between them.
  void begin(const std::vector<int32_t>& target_ids) override {
    targets_.assign(1, {});
    for (const int32_t token_id : target_ids) {
      if (token_id == row_.eos())
        targets_.emplace_back();
      else
        targets_.back().push_back(token_id);
    }
    for (const std::vector<int32_t>& target : targets_)
      if (const size_t length = target.size() + 1; length > static_cast<size_t>(spec_.max_length))
        throw_invalid("target has ", length, " tokens, EOS counted: expected at most max_length ",
                      spec_.max_length);
  }

  void plan(const DraftTree*& /*proposed*/) override {
    int32_t count = 0;
    const auto add = [&](int32_t parent, int32_t token_id) {
      const int32_t slot = row_.add(parent, token_id);
      row_.tree->set_row(slot, count++);
      row_.tree->stage(row_.index, slot);
      return slot;
    };
    root_ = add(TokenTree::kNone, row_.bos());
    for (const std::vector<int32_t>& target : targets_) {
      int32_t slot = root_;
      for (const int32_t token_id : target) {
        const int32_t child = row_.tree->child(slot, token_id);
        slot = child == TokenTree::kNone ? add(slot, token_id) : child;
      }
    }
    count_staged(static_cast<size_t>(count), 0);
  }

  bool advance(const float* log_probs, int32_t vocab_size) override {
    for (std::vector<int32_t>& target : targets_) {
      double log_prob = 0;
      int32_t slot = root_;
      const auto of = [&](int32_t token_id) {
        const auto row = static_cast<int64_t>(row_.tree->row(slot));
        return static_cast<double>(log_probs[row * vocab_size + token_id]);
      };
      for (const int32_t token_id : target) {
        log_prob += of(token_id);
        slot = row_.tree->child(slot, token_id);
      }
      log_prob += of(row_.eos());
      decoded_.statistics.emitted_tokens += static_cast<int64_t>(target.size()) + 1;
      if (std::isfinite(log_prob))
        decoded_.hypotheses.push_back({std::move(target), log_prob, true, slot});
    }
    if (decoded_.hypotheses.empty()) decoded_.error = kNoNumbers;
    return true;
  }

 private:
  void set_log_prob(double /*log_prob*/) override {}  // a given target has no prefix

  ForcedSpec spec_;
  std::vector<std::vector<int32_t>> targets_;
  int32_t root_ = TokenTree::kNone;  // the node of BOS
};

}  // namespace

std::unique_ptr<Search> ForcedSpec::search(const Row& row) const {
  return std::make_unique<ForcedSearch>(*this, row);
}

}  // namespace molspec
