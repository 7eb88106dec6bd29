// The operators of a round of beam search. None waits, none allocates: a round can be captured.

#include "ops/beam_rows.h"

#include <torch/csrc/stable/library.h>

#include <array>
#include <vector>

#include "cuda/kernels.h"
#include "cuda/stream.h"

namespace molspec::cuda {
namespace {

// Lists of tensors, by the names of what is in them, and single ones.
class Arguments {
 public:
  template <size_t kCount>
  Arguments& add(const Tensors& tensors, const char* name,
                 const std::array<const char*, kCount>& names) {
    check_count(tensors, name, names);
    for (size_t i = 0; i < kCount; ++i) arguments_.push_back({tensors[i], names[i]});
    return *this;
  }
  Arguments& add(const Tensor& tensor, const char* name) {
    arguments_.push_back({tensor, name});
    return *this;
  }
  operator const std::vector<Argument>&() const { return arguments_; }

 private:
  std::vector<Argument> arguments_;
};

void look_ahead_op(const Tensors& beams, const Tensors& best, const Tensor& length_norms,
                   const Tensors& guess, int64_t beam_size, int64_t lookahead_steps,
                   int64_t node_budget, double min_confidence, int64_t bos_id, int64_t eos_id) {
  const Stream stream(Arguments()
                          .add(beams, "beams", kBeamTensors)
                          .add(best, "best", kBestTensors)
                          .add(length_norms, "length_norms")
                          .add(guess, "guess", kGuessTensors));
  const BeamRows rows = beam_rows_check(beams, beam_size);
  const GuessTensors tensors = guess_tensors_check(guess[0], guess[1], guess[2],
                                                   rows.answers.query_count, rows.trees.node_count);
  look_ahead(look_ahead_check(rows, best_tokens_check(best, rows), tensors,
                              length_norms_check(length_norms, rows), lookahead_steps, node_budget,
                              min_confidence, bos_id, eos_id),
             stream);
}

void stage_beams_op(const Tensors& beams, const Tensor& nodes, int64_t beam_size, int64_t bos_id) {
  const Stream stream(Arguments().add(beams, "beams", kBeamTensors).add(nodes, "nodes"));
  stage_beams(stage_beams_check(beam_rows_check(beams, beam_size), nodes, bos_id), stream);
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

void replay_beams_op(const Tensors& beams, const Tensors& best, const Tensor& length_norms,
                     int64_t beam_size, int64_t eos_id) {
  const Stream stream(Arguments()
                          .add(beams, "beams", kBeamTensors)
                          .add(best, "best", kBestTensors)
                          .add(length_norms, "length_norms"));
  const BeamRows rows = beam_rows_check(beams, beam_size);
  replay_beams(replay_beams_check(rows, best_tokens_check(best, rows),
                                  length_norms_check(length_norms, rows), eos_id),
               stream);
}

void plan_windows_op(const Tensors& beams, const Tensor& windows, int64_t beam_size,
                     int64_t bos_id) {
  const Stream stream(Arguments().add(beams, "beams", kBeamTensors).add(windows, "windows"));
  const BeamRows rows = beam_rows_check(beams, beam_size);
  plan_windows(
      plan_windows_check(rows, window_rows_check(windows, rows.answers.query_count), bos_id),
      stream);
}

void select_leaves_op(const Tensors& beams, const Tensors& best, const Tensor& length_norms,
                      int64_t beam_size, double nucleus, int64_t eos_id) {
  const Stream stream(Arguments()
                          .add(beams, "beams", kBeamTensors)
                          .add(best, "best", kBestTensors)
                          .add(length_norms, "length_norms"));
  const BeamRows rows = beam_rows_check(beams, beam_size);
  select_leaves(select_leaves_check(rows, best_tokens_check(best, rows),
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
