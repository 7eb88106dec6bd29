// A decoder step whose layers are one kernel of clusters (cluster_step.cuh).

#pragma once

#include <cuda_runtime.h>

#include "cuda/engine/rows.h"

namespace molspec::cuda {

// Whether a kernel takes this step: they are compiled for the sizes of the bundled models, in
// bfloat16. None has run on a device yet, so that MOLSPEC_CLUSTER_STEP must be in the environment.
bool takes_cluster_step(const DecoderStepProblem& problem);
// Writes the logits of the rows to work.projected, and the hidden states if they are wanted.
void cluster_step(const DecoderStepProblem& problem, const Workspace& work, cudaStream_t stream);

}  // namespace molspec::cuda
