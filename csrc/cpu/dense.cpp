// The operators of dense batches on the CPU.

#include <torch/csrc/stable/library.h>

#include <algorithm>

#include "ops/dense_operators.h"

namespace molspec::cpu {
namespace {

// The device of ops/dense_operators.h.
struct DenseBatches {
  DenseBatches(std::initializer_list<Argument>) {}

  static const int64_t* on_host(const int64_t* values, int64_t /*count*/) { return values; }

  static void left_pad(const LeftPadProblem& problem) {
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

  static void expand_drafts(const ExpandDraftsProblem& problem) {
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

  static void acceptance_length(const AcceptanceLengthProblem& problem) {
    for (int64_t row = 0; row < problem.row_count; ++row) {
      const int64_t* draft = problem.draft_ids + row * problem.draft_length;
      const int64_t* end = draft + problem.draft_lengths[row];
      const int64_t* predicted = problem.predicted_ids + row * problem.draft_length;
      problem.accepted[row] = std::mismatch(draft, end, predicted).first - draft;
    }
  }
};

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(molspec, CPU, library) { implement_dense<DenseBatches>(library); }

}  // namespace molspec::cpu
