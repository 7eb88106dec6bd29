// expand_drafts: every hypothesis with every draft of its query after it.
//
// Row h * draft_count + d is hypothesis h followed by draft d. Hypotheses are padded on the left,
// so drafts start in one column; a draft shorter than the longest is padded on the right.

#pragma once

#include <cstdint>
#include <tuple>

#include "ops/refuse.h"

namespace molspec {

struct ExpandDraftsProblem {
  int64_t hypothesis_count, length;
  int64_t query_count, draft_count, draft_length;
  const int64_t* token_ids;         // [hypothesis, length]
  const int64_t* position_offsets;  // [hypothesis]
  const int64_t* query_indices;     // [hypothesis]
  const int64_t* draft_ids;         // [query, draft, draft_length]
  int64_t* expanded_ids;            // [hypothesis * draft, length + draft_length]
  int64_t* expanded_offsets;        // [hypothesis * draft]
  int64_t* expanded_queries;        // [hypothesis * draft]
};

// Everything but the outputs and the values of query_indices.
ExpandDraftsProblem expand_drafts_check(const Tensor& token_ids, const Tensor& position_offsets,
                                        const Tensor& query_indices, const Tensor& draft_ids);

// The results, where `like` lies; the problem points to them.
std::tuple<Tensor, Tensor, Tensor> expand_drafts_results(ExpandDraftsProblem& problem,
                                                         const Tensor& like);

}  // namespace molspec
