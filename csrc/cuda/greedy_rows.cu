#include "cuda/launch.h"
#include "cuda/propose_tree.cuh"
#include "cuda/propose_windows.cuh"
#include "cuda/stage_nodes.cuh"
#include "cuda/verify_nodes.cuh"

namespace molspec::cuda {

void propose_windows(const ProposeWindowsProblem& problem, cudaStream_t stream) {
  launch("propose_windows", propose_windows_kernel, problem.answers.query_count, kWarp, stream,
         problem);
}

void propose_tree(const ProposeTreeProblem& problem, cudaStream_t stream) {
  launch("propose_tree", propose_tree_kernel, problem.answers.query_count, kTreeThreads, stream,
         problem);
}

void stage_nodes(const StageNodesProblem& problem, cudaStream_t stream) {
  launch("stage_nodes", stage_nodes_kernel, problem.answers.query_count, kStageThreads, stream,
         problem);
}

void verify_nodes(const VerifyNodesProblem& problem, cudaStream_t stream) {
  launch("verify_nodes", verify_nodes_kernel, problem.answers.query_count, kVerifyThreads, stream,
         problem);
}

}  // namespace molspec::cuda
