// The operators of a round of beam search. None waits, none allocates: a round can be captured.

#include "ops/beam_rows.h"

#include <torch/csrc/stable/library.h>

#include "cuda/kernels.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

void stage_beams_op(const Tensor& answers, const Tensor& path_slots, const Tensor& nodes,
                    int64_t bos_id) {
  const Stream stream{{answers, "answers"}, {path_slots, "path_slots"}, {nodes, "nodes"}};
  stage_beams(stage_beams_check(answers, path_slots, nodes, bos_id), stream);
}

void rank_tokens_op(const Tensor& nodes, const Tensor& log_probs, const Tensor& best_ids,
                    const Tensor& best_log_probs) {
  const Stream stream{{nodes, "nodes"},
                      {log_probs, "log_probs"},
                      {best_ids, "best_ids"},
                      {best_log_probs, "best_log_probs"}};
  rank_tokens(rank_tokens_check(nodes, log_probs, best_ids, best_log_probs), stream);
}

void select_beams_op(const Tensor& answers, const Tensor& path_slots, const Tensor& best_ids,
                     const Tensor& best_log_probs, const Tensor& length_norms, int64_t eos_id) {
  const Stream stream{{answers, "answers"},
                      {path_slots, "path_slots"},
                      {best_ids, "best_ids"},
                      {best_log_probs, "best_log_probs"},
                      {length_norms, "length_norms"}};
  select_beams(
      select_beams_check(answers, path_slots, best_ids, best_log_probs, length_norms, eos_id),
      stream);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("stage_beams", TORCH_BOX(&stage_beams_op));
  library.impl("rank_tokens", TORCH_BOX(&rank_tokens_op));
  library.impl("select_beams", TORCH_BOX(&select_beams_op));
}

}  // namespace molspec::cuda
