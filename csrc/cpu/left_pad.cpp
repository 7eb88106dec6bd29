#include "ops/dense.h"

#include <torch/csrc/stable/library.h>

#include <algorithm>

namespace molspec::cpu {
namespace {

void left_pad(const LeftPadProblem& problem) {
  const int64_t* from = problem.token_ids;
  int64_t* to = problem.padded_ids;
  for (int64_t row = 0; row < problem.row_count; ++row) {
    const int64_t pads = problem.width - problem.lengths[row];
    problem.position_offsets[row] = pads;
    to = std::fill_n(to, pads, problem.pad_id);
    to = std::copy_n(from, problem.lengths[row], to);
    from += problem.lengths[row];
  }
}

std::tuple<Tensor, Tensor> left_pad_op(const Tensor& token_ids, const Tensor& lengths,
                                       int64_t pad_id) {
  LeftPadProblem problem = left_pad_check(token_ids, lengths, pad_id);
  int64_t total = 0;
  for (int64_t row = 0; row < problem.row_count; ++row) {
    const int64_t length = problem.lengths[row];
    check(length >= 0 && length <= problem.token_count, "lengths[", row, "] is ", length,
          ": expected 0 to ", problem.token_count);
    problem.width = std::max(problem.width, length);
    total += length;
  }
  check(total == token_ids.numel(), "lengths add up to ", total, ": expected the ",
        problem.token_count, " of token_ids");
  auto results = left_pad_results(problem, token_ids);
  left_pad(problem);
  return results;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) {
  library.impl("left_pad", TORCH_BOX(&left_pad_op));
}

}  // namespace molspec::cpu
