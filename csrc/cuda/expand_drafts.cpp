#include "ops/expand_drafts.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <tuple>

#include "cuda/first_bad.h"
#include "cuda/kernels.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

std::tuple<Tensor, Tensor, Tensor> expand_drafts_op(const Tensor& token_ids,
                                                    const Tensor& position_offsets,
                                                    const Tensor& query_indices,
                                                    const Tensor& draft_ids) {
  const Stream stream{{token_ids, "token_ids"},
                      {position_offsets, "position_offsets"},
                      {query_indices, "query_indices"},
                      {draft_ids, "draft_ids"}};
  ExpandDraftsProblem problem =
      expand_drafts_check(token_ids, position_offsets, query_indices, draft_ids);
  const int64_t rows = problem.hypothesis_count * problem.draft_count;
  Tensor expanded_ids =
      torch::stable::new_empty(token_ids, {rows, problem.length + problem.draft_length});
  Tensor expanded_offsets = torch::stable::new_empty(token_ids, {rows});
  Tensor expanded_queries = torch::stable::new_empty(token_ids, {rows});
  problem.expanded_ids = static_cast<int64_t*>(expanded_ids.data_ptr());
  problem.expanded_offsets = static_cast<int64_t*>(expanded_offsets.data_ptr());
  problem.expanded_queries = static_cast<int64_t*>(expanded_queries.data_ptr());
  const FirstBad first_bad(query_indices, stream);
  expand_drafts(problem, first_bad.data(), stream);
  first_bad.check_none("query_indices", problem.query_indices, problem.query_count - 1);
  return {expanded_ids, expanded_offsets, expanded_queries};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("expand_drafts", TORCH_BOX(&expand_drafts_op));
}

}  // namespace molspec::cuda
