// The operators of a round of greedy decoding. None waits, none allocates: a round can be captured.

#include "ops/greedy_rows.h"

#include <torch/csrc/stable/library.h>

#include "cuda/kernels.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

void propose_windows_op(const Tensor& answers, const Tensor& drafts, const Tensor& windows,
                        int64_t bos_id) {
  const Stream stream{{answers, "answers"}, {drafts, "drafts"}, {windows, "windows"}};
  propose_windows(propose_windows_check(answers, drafts, windows, bos_id), stream);
}

void propose_tree_op(const Tensor& answers, const Tensor& drafts, const Tensor& tables,
                     const Tensor& texts, const Tensor& states, int64_t max_depth,
                     int64_t max_turns, double min_log_prob) {
  const Stream stream{{answers, "answers"},
                      {drafts, "drafts"},
                      {tables, "tables"},
                      {texts, "texts"},
                      {states, "states"}};
  propose_tree(propose_tree_check(answers, drafts, tables, texts, states, max_depth, max_turns,
                                  min_log_prob),
               stream);
}

void stage_nodes_op(const Tensor& answers, const Tensor& slots, const Tensor& drafts,
                    const Tensor& nodes, const Tensor& path_slots, int64_t bos_id) {
  const Stream stream{{answers, "answers"},
                      {slots, "slots"},
                      {drafts, "drafts"},
                      {nodes, "nodes"},
                      {path_slots, "path_slots"}};
  stage_nodes(stage_nodes_check(answers, slots, drafts, nodes, path_slots, bos_id), stream);
}

void verify_nodes_op(const Tensor& answers, const Tensor& slots, const Tensor& drafts,
                     const Tensor& log_probs, int64_t eos_id) {
  const Stream stream{
      {answers, "answers"}, {slots, "slots"}, {drafts, "drafts"}, {log_probs, "log_probs"}};
  verify_nodes(verify_nodes_check(answers, slots, drafts, log_probs, eos_id), stream);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("propose_windows", TORCH_BOX(&propose_windows_op));
  library.impl("propose_tree", TORCH_BOX(&propose_tree_op));
  library.impl("stage_nodes", TORCH_BOX(&stage_nodes_op));
  library.impl("verify_nodes", TORCH_BOX(&verify_nodes_op));
}

}  // namespace molspec::cuda
