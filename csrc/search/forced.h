// Forced decoding: the target is given, and only its probability is computed. All of
// it goes through the decoder in one pass, as a draft that is known to be wanted. The sum is that
// of greedy and beam search, to the bit: float64, in the order of the tokens.

#pragma once

#include <vector>

#include "search/search.h"

namespace molspec {

class ForcedSearch final : public Search {
 public:
  ForcedSearch(const ForcedSpec& /*spec*/, Row row) : Search(std::move(row)) {}

  // The target in place of a source.
  void start(const std::vector<int32_t>& target_ids) override;
  void plan(const DraftTree* proposed) override;
  bool advance(const float* log_probs, int32_t vocab_size) override;

 private:
  std::vector<int32_t> target_ids_;
};

}  // namespace molspec
