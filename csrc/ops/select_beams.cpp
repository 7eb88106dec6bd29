#include "ops/select_beams.h"

#include "ops/check.h"

namespace molspec {

SelectBeamsProblem select_beams_check(const Tensor& answers, const Tensor& path_slots,
                                      const Tensor& best_ids, const Tensor& best_log_probs,
                                      const Tensor& length_norms, int64_t eos_id) {
  SelectBeamsProblem problem{};
  problem.answers = beam_answers_check(answers, path_slots);
  problem.paths = path_rows_check(path_slots);
  problem.best_ids = checked_data<const int32_t>(best_ids, "best_ids", ScalarType::Int, 2);
  problem.best_log_probs =
      checked_data<const float>(best_log_probs, "best_log_probs", ScalarType::Float, 2);
  problem.node_count = best_ids.size(0);
  problem.candidate_count = problem.answers.beam_size + (problem.answers.finished_apart() ? 1 : 0);
  for (const auto& [tensor, name] :
       {std::pair(&best_ids, "best_ids"), std::pair(&best_log_probs, "best_log_probs")})
    check(tensor->size(0) == problem.node_count && tensor->size(1) == problem.candidate_count, name,
          " has shape [", tensor->size(0), ", ", tensor->size(1), "]: expected [",
          problem.node_count, ", ", problem.candidate_count, "]");
  problem.length_norms =
      checked_data<const double>(length_norms, "length_norms", ScalarType::Double, 1);
  check(length_norms.numel() == 1 + problem.answers.capacity, "length_norms has ",
        length_norms.numel(), " entries: expected ", 1 + problem.answers.capacity);
  problem.eos_id = static_cast<int32_t>(eos_id);
  return problem;
}

}  // namespace molspec
