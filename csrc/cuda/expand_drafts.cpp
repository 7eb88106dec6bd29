#include "ops/expand_drafts.h"

#include <torch/csrc/stable/library.h>

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
  auto results = expand_drafts_results(problem, token_ids);
  const FirstBad first_bad(query_indices, stream);
  expand_drafts(problem, first_bad.data(), stream);
  first_bad.check_none("query_indices", problem.query_indices, problem.query_count - 1);
  return results;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("expand_drafts", TORCH_BOX(&expand_drafts_op));
}

}  // namespace molspec::cuda
