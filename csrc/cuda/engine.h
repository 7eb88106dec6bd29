// The engine's operators, as their launchers see them: problems of raw device pointers and a
// stream. Free of torch; a function returns once its kernels are queued and throws
// std::runtime_error where CUDA refuses a launch.

#pragma once

#include <cuda_runtime.h>

#include "ops/steps.h"

namespace molspec::cuda {

// Values that are out of range leave their rows out and are kept in the workspace: read_fault waits
// for the device and tells the first.
int64_t workspace_size(const Model& model, int64_t rows);
void encode(const EncodeProblem& problem, cudaStream_t stream);
void decoder_step(const DecoderStepProblem& problem, cudaStream_t stream);
Fault read_fault(const uint8_t* workspace, cudaStream_t stream);

}  // namespace molspec::cuda
