// A live hypothesis: its last token needs the model's distribution, and drafts may follow it.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "drafting/draft_tree.h"
#include "search/sampling.h"
#include "search/token_tree.h"

namespace molspec {

struct Head {
  int32_t node = TokenTree::kNone;  // of the last token, or of BOS
  double log_prob = 0;              // of its tokens, natural log
  DraftTree drafts = {};            // after it in this round
  std::vector<int32_t> slots = {};  // their slots; kNone of one that is not staged
  // Of a sample: draws the next tokens of a draft model.
  std::optional<Sampler> sampler = std::nullopt;
};

}  // namespace molspec
