#include "ops/dense.h"

#include <torch/csrc/stable/library.h>

#include <algorithm>

namespace molspec::cpu {
namespace {

void expand_drafts(const ExpandDraftsProblem& problem) {
  int64_t* to = problem.expanded_ids;
  for (int64_t hypothesis = 0; hypothesis < problem.hypothesis_count; ++hypothesis) {
    const int64_t query = problem.query_indices[hypothesis];
    const int64_t* sequence = problem.token_ids + hypothesis * problem.length;
    const int64_t* draft = problem.draft_ids + query * problem.draft_count * problem.draft_length;
    for (int64_t d = 0; d < problem.draft_count; ++d, draft += problem.draft_length) {
      to = std::copy_n(sequence, problem.length, to);
      to = std::copy_n(draft, problem.draft_length, to);
    }
    const int64_t row = hypothesis * problem.draft_count;
    std::fill_n(problem.expanded_offsets + row, problem.draft_count,
                problem.position_offsets[hypothesis]);
    std::fill_n(problem.expanded_queries + row, problem.draft_count, query);
  }
}

std::tuple<Tensor, Tensor, Tensor> expand_drafts_op(const Tensor& token_ids,
                                                    const Tensor& position_offsets,
                                                    const Tensor& query_indices,
                                                    const Tensor& draft_ids) {
  ExpandDraftsProblem problem =
      expand_drafts_check(token_ids, position_offsets, query_indices, draft_ids);
  for (int64_t i = 0; i < problem.hypothesis_count; ++i)
    check(problem.query_indices[i] >= 0 && problem.query_indices[i] < problem.query_count,
          "query_indices[", i, "] is ", problem.query_indices[i], ": expected 0 to ",
          problem.query_count - 1);
  auto results = expand_drafts_results(problem, token_ids);
  expand_drafts(problem);
  return results;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("expand_drafts", TORCH_BOX(&expand_drafts_op));
}

}  // namespace molspec::cpu
