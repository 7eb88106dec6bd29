// Launchers of the kernels for dense batches (ops/dense.h), without torch.

#pragma once

#include <cuda_runtime.h>

#include "ops/dense.h"

namespace molspec::cuda {

// `begins` [row]: of each row in token_ids.
void left_pad(const LeftPadProblem& problem, const int64_t* begins, cudaStream_t stream);
void expand_drafts(const ExpandDraftsProblem& problem, cudaStream_t stream);
void acceptance_length(const AcceptanceLengthProblem& problem, cudaStream_t stream);

}  // namespace molspec::cuda
