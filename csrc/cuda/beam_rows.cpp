// The operators of a round of beam search. None waits, none allocates: a round can be captured.

#include "ops/beam_rows.h"

#include <torch/csrc/stable/library.h>

#include "cuda/kernels.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

void look_ahead_op(const Tensor& answers, const Tensor& trees, const Tensor& used_nodes,
                   const Tensor& path_slots, const Tensor& plans, const Tensor& best_ids,
                   const Tensor& best_log_probs, const Tensor& length_norms, const Tensor& tables,
                   const Tensor& texts, const Tensor& states, int64_t beam_size,
                   int64_t lookahead_steps, int64_t node_budget, double min_confidence,
                   int64_t bos_id, int64_t eos_id) {
  const Stream stream{{answers, "answers"},
                      {trees, "trees"},
                      {used_nodes, "used_nodes"},
                      {path_slots, "path_slots"},
                      {plans, "plans"},
                      {best_ids, "best_ids"},
                      {best_log_probs, "best_log_probs"},
                      {length_norms, "length_norms"},
                      {tables, "tables"},
                      {texts, "texts"},
                      {states, "states"}};
  const BeamRows rows = beam_rows_check(answers, trees, used_nodes, path_slots, plans, beam_size);
  const GuessTensors guess =
      guess_tensors_check(tables, texts, states, rows.answers.query_count, rows.trees.node_count);
  look_ahead(look_ahead_check(rows, best_tokens_check(best_ids, best_log_probs, rows), guess,
                              length_norms_check(length_norms, rows), lookahead_steps, node_budget,
                              min_confidence, bos_id, eos_id),
             stream);
}

void stage_beams_op(const Tensor& answers, const Tensor& trees, const Tensor& used_nodes,
                    const Tensor& path_slots, const Tensor& plans, const Tensor& nodes,
                    int64_t beam_size, int64_t bos_id) {
  const Stream stream{{answers, "answers"},       {trees, "trees"}, {used_nodes, "used_nodes"},
                      {path_slots, "path_slots"}, {plans, "plans"}, {nodes, "nodes"}};
  const BeamRows rows = beam_rows_check(answers, trees, used_nodes, path_slots, plans, beam_size);
  stage_beams(stage_beams_check(rows, nodes, bos_id), stream);
}

void rank_tokens_op(const Tensor& nodes, const Tensor& path_slots, const Tensor& log_probs,
                    const Tensor& best_ids, const Tensor& best_log_probs) {
  const Stream stream{{nodes, "nodes"},
                      {path_slots, "path_slots"},
                      {log_probs, "log_probs"},
                      {best_ids, "best_ids"},
                      {best_log_probs, "best_log_probs"}};
  rank_tokens(rank_tokens_check(nodes, path_slots, log_probs, best_ids, best_log_probs), stream);
}

void replay_beams_op(const Tensor& answers, const Tensor& trees, const Tensor& used_nodes,
                     const Tensor& path_slots, const Tensor& plans, const Tensor& best_ids,
                     const Tensor& best_log_probs, const Tensor& length_norms, int64_t beam_size,
                     int64_t eos_id) {
  const Stream stream{{answers, "answers"},
                      {trees, "trees"},
                      {used_nodes, "used_nodes"},
                      {path_slots, "path_slots"},
                      {plans, "plans"},
                      {best_ids, "best_ids"},
                      {best_log_probs, "best_log_probs"},
                      {length_norms, "length_norms"}};
  const BeamRows rows = beam_rows_check(answers, trees, used_nodes, path_slots, plans, beam_size);
  replay_beams(replay_beams_check(rows, best_tokens_check(best_ids, best_log_probs, rows),
                                  length_norms_check(length_norms, rows), eos_id),
               stream);
}

void plan_windows_op(const Tensor& answers, const Tensor& trees, const Tensor& used_nodes,
                     const Tensor& path_slots, const Tensor& plans, const Tensor& windows,
                     int64_t beam_size, int64_t bos_id) {
  const Stream stream{{answers, "answers"},       {trees, "trees"}, {used_nodes, "used_nodes"},
                      {path_slots, "path_slots"}, {plans, "plans"}, {windows, "windows"}};
  const BeamRows rows = beam_rows_check(answers, trees, used_nodes, path_slots, plans, beam_size);
  plan_windows(
      plan_windows_check(rows, window_rows_check(windows, rows.answers.query_count), bos_id),
      stream);
}

void select_leaves_op(const Tensor& answers, const Tensor& trees, const Tensor& used_nodes,
                      const Tensor& path_slots, const Tensor& plans, const Tensor& best_ids,
                      const Tensor& best_log_probs, const Tensor& length_norms, int64_t beam_size,
                      double nucleus, int64_t eos_id) {
  const Stream stream{{answers, "answers"},
                      {trees, "trees"},
                      {used_nodes, "used_nodes"},
                      {path_slots, "path_slots"},
                      {plans, "plans"},
                      {best_ids, "best_ids"},
                      {best_log_probs, "best_log_probs"},
                      {length_norms, "length_norms"}};
  const BeamRows rows = beam_rows_check(answers, trees, used_nodes, path_slots, plans, beam_size);
  select_leaves(select_leaves_check(rows, best_tokens_check(best_ids, best_log_probs, rows),
                                    length_norms_check(length_norms, rows), nucleus, eos_id),
                stream);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, MOLSPEC_DEVICE, library) {
  library.impl("look_ahead", TORCH_BOX(&look_ahead_op));
  library.impl("stage_beams", TORCH_BOX(&stage_beams_op));
  library.impl("rank_tokens", TORCH_BOX(&rank_tokens_op));
  library.impl("replay_beams", TORCH_BOX(&replay_beams_op));
  library.impl("plan_windows", TORCH_BOX(&plan_windows_op));
  library.impl("select_leaves", TORCH_BOX(&select_leaves_op));
}

}  // namespace molspec::cuda
