// Launchers of the engine's operators: they take raw device pointers and a stream, without torch.
// They return when their kernels are queued and throw std::runtime_error if CUDA refuses a launch.

#pragma once

#include <cuda_runtime.h>

#include "ops/steps.h"

namespace molspec::cuda {

// Rows with values out of range are left out; the first such value is stored in the workspace.
// read_fault waits for the device and returns it.
int64_t workspace_size(const Model& model, int64_t rows);
void encode(const EncodeProblem& problem, cudaStream_t stream);
void decoder_step(const DecoderStepProblem& problem, cudaStream_t stream);
Fault read_fault(const uint8_t* workspace, cudaStream_t stream);

}  // namespace molspec::cuda
