// plan_windows on the GPU: a block a query.

#pragma once

#include "cuda/rounds/beam_rows.h"
#include "cuda/rounds/beam_tree.cuh"
#include "cuda/rounds/window_tree.cuh"

namespace molspec::cuda {

constexpr int kPlanThreads = 512;
constexpr int kPlanWarps = kPlanThreads / kWarp;
constexpr int kPlanParts = 64;  // of the tree's blocks, in which threads search for free nodes

struct PlanShared {
  BeamEntry beam[kWidestBeam];
  WindowTree windows[kWidestBeam];
  PlannedWindows planned;
  int32_t free_before[kPlanParts + 1];  // a part
  BlockMask masks[kMostBeamBlocks];
  int32_t drafted;
};

// The plan of one query, by a block of threads.
struct WindowPlanner {
  const PlanWindowsProblem& problem;
  const int query;
  const int32_t count;  // hypotheses
  const BeamTree tree;
  PlanShared& shared;

  __device__ bool continues(int32_t rank) const {
    return shared.beam[rank].continues(problem.rows.answers.max_length(query));
  }
  __device__ int32_t* plan() const { return problem.rows.trees.plan(query); }
  __device__ int32_t open_count() const { return shared.planned.open_before[count]; }
  __device__ int32_t draft_count() const { return shared.planned.drafts_before[count]; }

  __device__ void find_windows() const {
    for (int32_t rank = warp_index(); rank < count; rank += kPlanWarps) {
      WindowTree found{nullptr, 0};
      if (continues(rank))
        found = window_tree(problem.windows, query, tree.node(shared.beam[rank].node).token_id,
                            problem.draft_limit);
      if (lane_index() == 0) {
        shared.windows[rank] = found;
        problem.rows.answers.beam(query)[rank].draft_count = found.count;
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      const BeamAnswers& answers = problem.rows.answers;
      shared.planned.find(shared.beam, answers.beam(query), count, answers.max_length(query));
      shared.drafted = 0;
    }
  }

  // A draft token, by its number among all.
  struct Draft {
    int32_t rank, node;  // node: of its tree of windows
  };
  __device__ Draft draft(int32_t number) const {
    int32_t rank = 0;
    while (shared.planned.drafts_before[rank + 1] <= number) ++rank;
    return {rank, number - shared.planned.drafts_before[rank]};
  }
  __device__ int32_t position(const Draft& draft) const {
    return tree.node(shared.beam[draft.rank].node).position +
           shared.windows[draft.rank].depth(draft.node);
  }

  __device__ int32_t part_begin(int32_t part) const {
    return static_cast<int32_t>(part * problem.rows.trees.block_count() / kPlanParts);
  }

  // The i-th free node of the tree for draft i.
  __device__ void take_nodes() const {
    for (int32_t part = threadIdx.x; part < kPlanParts; part += blockDim.x) {
      int32_t free = 0;
      for (int32_t block = part_begin(part); block < part_begin(part + 1); ++block)
        free += kBlockPositions - __popc(tree.masks[block]);
      shared.free_before[part + 1] = free;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      shared.free_before[0] = 0;
      for (int32_t part = 0; part < kPlanParts; ++part)
        shared.free_before[part + 1] += shared.free_before[part];
    }
    __syncthreads();
    for (int32_t part = threadIdx.x; part < kPlanParts; part += blockDim.x) {
      int32_t number = shared.free_before[part];
      for (int32_t block = part_begin(part); block < part_begin(part + 1); ++block) {
        unsigned mask = tree.masks[block];
        for (int32_t i = 0; i < kBlockPositions && number < draft_count(); ++i) {
          if (mask >> i & 1) continue;
          mask |= 1U << i;
          plan()[open_count() + number++] = block * kBlockPositions + i;
        }
        tree.masks[block] = static_cast<BlockMask>(mask);
      }
    }
    __syncthreads();
  }

  // A draft token beyond max_length leaves a gap; no gap precedes a draft token within it.
  __device__ void begin_nodes() const {
    const int32_t max_length = problem.rows.answers.max_length(query);
    for (int32_t number = threadIdx.x; number < draft_count(); number += blockDim.x) {
      const Draft mine = draft(number);
      const WindowTree& windows = shared.windows[mine.rank];
      int32_t* nodes = plan() + open_count() + shared.planned.drafts_before[mine.rank];
      const int32_t index = nodes[mine.node];
      int32_t at = position(mine);
      if (at >= max_length) {
        nodes[mine.node] = BeamNode::kNone;
        continue;
      }
      tree.node(index) = {windows.token_id(mine.node), at, BeamNode::kNone, BeamNode::kNone,
                          BeamNode::kDrafted,          0};
      for (int32_t node = mine.node; node >= 0; node = windows.parent(node))
        tree.path(index)[at--] = tree.slot(nodes[node]);
      atomicAdd(&shared.drafted, 1);
    }
    __syncthreads();
  }

  // Copies the path of a hypothesis to the beginning of its drafts' paths. Warps stride over
  // drafts.
  __device__ void copy_paths() const {
    for (int32_t rank = 0; rank < count; ++rank) {
      const int32_t last = shared.beam[rank].node, length = tree.node(last).position + 1;
      const int32_t end = shared.planned.drafts_before[rank + 1];
      for (int32_t i = shared.planned.drafts_before[rank] + warp_index(); i < end;
           i += kPlanWarps) {
        const int32_t index = plan()[open_count() + i];
        if (index != BeamNode::kNone) tree.copy_path(last, length, index);
      }
    }
    for (int32_t rank = threadIdx.x; rank < count; rank += blockDim.x)
      if (continues(rank)) plan()[shared.planned.open_before[rank]] = shared.beam[rank].node;
  }
};

inline __global__ void plan_windows_kernel(PlanWindowsProblem problem) {
  await_previous();
  __shared__ PlanShared shared;
  const int query = blockIdx.x;
  const BeamRows& rows = problem.rows;
  BeamAnswer& answer = rows.answers.head(query);
  if (answer.state != BeamAnswer::kLive || answer.looked_from != BeamAnswer::kNowhere) return;
  begin_tree(rows, query, problem.bos_id);
  const BeamTree tree{rows.trees, query, shared.masks};
  const WindowPlanner planner{problem, query, answer.count, tree, shared};
  read_places(rows.answers.beam(query), answer.count, shared.beam);
  tree.read_masks();
  __syncthreads();
  planner.find_windows();
  planner.take_nodes();
  planner.begin_nodes();
  planner.copy_paths();
  tree.write_masks();
  __syncthreads();
  if (threadIdx.x != 0) return;
  answer.planned_count = planner.open_count() + planner.draft_count();
  answer.drafted_tokens += shared.drafted;
  answer.used_count += planner.draft_count();
  answer.looked_from = answer.length;
}

}  // namespace molspec::cuda
