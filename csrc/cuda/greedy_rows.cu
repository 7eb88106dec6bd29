#include "cuda/launch.h"
#include "cuda/propose_tree.cuh"
#include "cuda/stage_nodes.cuh"
#include "cuda/verify_nodes.cuh"
#include "cuda/window_tree.cuh"

namespace molspec::cuda {

// A warp a query: lanes stride over the nodes of the tree.
inline __global__ void propose_windows_kernel(ProposeWindowsProblem problem) {
  const int query = blockIdx.x, lane = lane_index();
  if (problem.answers.head(query).state != GreedyAnswer::kLive) return;
  const WindowTree tree =
      window_tree(problem.windows, query, problem.answers.last_token(query, problem.bos_id),
                  problem.drafts.limit);
  for (int32_t i = lane; i < tree.count; i += kWarp) {
    problem.drafts.token_ids(query)[i] = tree.token_id(i);
    problem.drafts.parents(query)[i] = tree.parent(i);
  }
  if (lane == 0) problem.drafts.count(query) = tree.count;
}

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
