// replay_beams on the GPU: a block a query.

#pragma once

#include "cuda/rounds/beam_rows.h"
#include "cuda/rounds/choose_beams.cuh"

namespace molspec::cuda {

struct ReplayShared {
  ChoiceShared choice;
  double scores[kMostScores];
  BeamAnswer answer;
  int32_t continues;
};

// The replay of one query, by a block of threads.
struct BeamReplayer {
  const ReplayBeamsProblem& problem;
  const int query;
  ReplayShared& shared;
  const BeamChooser chooser;

  // Marks the staged nodes: their likeliest tokens are now the model's.
  __device__ void mark_evaluated() const {
    const BeamTrees& trees = problem.rows.trees;
    for (int32_t i = threadIdx.x; i < shared.answer.planned_count; i += blockDim.x) {
      const int32_t index = trees.plan(query)[i];
      chooser.tree.node(index).known |= BeamNode::kEvaluated;
    }
  }

  __device__ bool is_live() const { return molspec::is_live(chooser, shared.choice); }

  // For one thread: makes the next beam. Returns false if that needs an unknown distribution.
  __device__ bool advance(int32_t choice_count) const {
    const Verdict verdict = replay(chooser, shared.choice, choice_count, shared.answer);
    if (verdict == Verdict::kNoNumbers) shared.answer.state = BeamAnswer::kNoNumbers;
    if (verdict != Verdict::kContinues) return false;
    ++shared.answer.length;
    chooser.extend(choice_count);
    return true;
  }

  // Takes a step of beam search if it can. Returns whether it did.
  __device__ bool step() const {
    if (threadIdx.x == 0) shared.continues = is_live();
    __syncthreads();
    const bool live = shared.continues;
    if (!live) return false;
    const int32_t choice_count = chooser.choose();
    if (threadIdx.x == 0) shared.continues = advance(choice_count);
    __syncthreads();
    const bool advanced = shared.continues;
    if (!advanced) return false;
    chooser.settle();
    return true;
  }

  // Frees the nodes that are not needed any more and plans the last tokens that are not evaluated.
  __device__ void plan() const {
    ChoiceShared& choice = shared.choice;
    const int32_t count = choice.count + choice.finished_count;
    chooser.tree.collect(
        count,
        [&](int32_t i) -> const BeamEntry& {
          return i < choice.count ? choice.beam[i] : choice.finished[i - choice.count];
        },
        shared.answer.length, choice.used_count);
    chooser.tree.write_masks();
    chooser.read_known();
    __syncthreads();
    if (threadIdx.x != 0) return;
    int32_t planned = 0;
    for (int32_t rank = 0; rank < choice.count; ++rank)
      if (!choice.beam[rank].finished && !chooser.evaluated(rank))
        problem.rows.trees.plan(query)[planned++] = choice.beam[rank].node;
    shared.answer.planned_count = planned;
  }

  // `live`: whether the search continues.
  __device__ void close(bool live) const {
    ChoiceShared& choice = shared.choice;
    const BeamAnswers& answers = problem.rows.answers;
    if (live) {
      plan();
    } else if (chooser.apart()) {
      write_token_ids(answers, chooser.tree, choice.finished, choice.finished_count);
    } else {
      write_token_ids(answers, chooser.tree, choice.beam, choice.count);
    }
    write_places(choice.beam, choice.count, answers.beam(query));
    if (chooser.apart())
      write_places(choice.finished, choice.finished_count, answers.finished(query));
    if (threadIdx.x != 0) return;
    shared.answer.state = live ? BeamAnswer::kLive : BeamAnswer::kDone;
    shared.answer.count = choice.count;
    shared.answer.finished_count = choice.finished_count;
    shared.answer.used_count = choice.used_count;
    answers.head(query) = shared.answer;
  }
};

inline __global__ void replay_beams_kernel(ReplayBeamsProblem problem) {
  await_previous();
  __shared__ ReplayShared shared;
  const int query = blockIdx.x;
  const BeamRows& rows = problem.rows;
  BeamAnswer& answer = rows.answers.head(query);
  if (answer.state != BeamAnswer::kLive || answer.first_node == BeamAnswer::kNotStaged) return;
  const BeamTree tree{rows.trees, query, shared.choice.masks};
  const BeamReplayer replayer{problem,
                              query,
                              shared,
                              {rows, problem.best, problem.length_norms, problem.eos_id, false,
                               1.0f, tree, shared.choice, shared.scores}};
  if (threadIdx.x == 0) shared.answer = answer;
  replayer.chooser.read();
  replayer.mark_evaluated();
  __syncthreads();
  while (replayer.step()) {
  }
  const bool has_numbers = shared.answer.state != BeamAnswer::kNoNumbers;
  __syncthreads();  // all have read it
  if (!has_numbers) {
    if (threadIdx.x == 0) answer = shared.answer;
    return;
  }
  replayer.close(replayer.is_live());
}

}  // namespace molspec::cuda
