#include "search/forced.h"

#include <cmath>

namespace molspec {

void ForcedSearch::start(const std::vector<int32_t>& target_ids) {
  row_.model->roles().check_tokens(target_ids.data(), static_cast<int>(target_ids.size()));
  begin();
  target_ids_ = target_ids;
}

void ForcedSearch::plan(const DraftTree* /*proposed*/) {
  int32_t slot = row_.add(TokenTree::kNone, row_.bos());
  row_.tree->stage(row_.index, slot);
  for (const int32_t token_id : target_ids_) {
    slot = row_.add(slot, token_id);
    row_.tree->stage(row_.index, slot);
  }
  count_staged(target_ids_.size() + 1, 0);
}

bool ForcedSearch::advance(const float* log_probs, int32_t vocab_size) {
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

std::unique_ptr<Search> ForcedSpec::search(const Row& row) const {
  return std::make_unique<ForcedSearch>(*this, row);
}

}  // namespace molspec
