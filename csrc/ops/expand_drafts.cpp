#include "ops/expand_drafts.h"

#include <torch/csrc/stable/ops.h>

#include "ops/check.h"

namespace molspec {

ExpandDraftsProblem expand_drafts_check(const Tensor& token_ids, const Tensor& position_offsets,
                                        const Tensor& query_indices, const Tensor& draft_ids) {
  ExpandDraftsProblem problem{};
  problem.token_ids = checked_data<const int64_t>(token_ids, "token_ids", ScalarType::Long, 2);
  problem.hypothesis_count = token_ids.size(0);
  problem.length = token_ids.size(1);
  problem.position_offsets =
      checked_data<const int64_t>(position_offsets, "position_offsets", ScalarType::Long, 1);
  problem.query_indices =
      checked_data<const int64_t>(query_indices, "query_indices", ScalarType::Long, 1);
  problem.draft_ids = checked_data<const int64_t>(draft_ids, "draft_ids", ScalarType::Long, 3);
  problem.query_count = draft_ids.size(0);
  problem.draft_count = draft_ids.size(1);
  problem.draft_length = draft_ids.size(2);
  check(position_offsets.numel() == problem.hypothesis_count, "position_offsets has ",
        position_offsets.numel(), " entries: expected one a hypothesis, ",
        problem.hypothesis_count);
  check(query_indices.numel() == problem.hypothesis_count, "query_indices has ",
        query_indices.numel(), " entries: expected one a hypothesis, ", problem.hypothesis_count);
  return problem;
}

std::tuple<Tensor, Tensor, Tensor> expand_drafts_results(ExpandDraftsProblem& problem,
                                                         const Tensor& like) {
  const int64_t rows = problem.hypothesis_count * problem.draft_count;
  Tensor ids = torch::stable::new_empty(like, {rows, problem.length + problem.draft_length});
  Tensor offsets = torch::stable::new_empty(like, {rows});
  Tensor queries = torch::stable::new_empty(like, {rows});
  problem.expanded_ids = static_cast<int64_t*>(ids.data_ptr());
  problem.expanded_offsets = static_cast<int64_t*>(offsets.data_ptr());
  problem.expanded_queries = static_cast<int64_t*>(queries.data_ptr());
  return {ids, offsets, queries};
}

}  // namespace molspec
