// replay_beams on the GPU: a block a query.

#pragma once

#include "cuda/choose_beams.cuh"
#include "cuda/kernels.h"

namespace molspec::cuda {

struct ReplayShared {
  ChoiceShared choice;
  double scores[kMostScores];
  BeamAnswer answer;
  int32_t goes_on;
};

// What the threads of a block do for a query.
struct BeamReplayer {
  const ReplayBeamsProblem& problem;
  const int query;
  ReplayShared& shared;
  const BeamChooser chooser;

  // The model's likeliest tokens are there for what was staged.
  __device__ void mark_evaluated() const {
    const BeamTrees& trees = problem.rows.trees;
    for (int32_t i = threadIdx.x; i < shared.answer.planned_count; i += blockDim.x) {
      const int32_t index = trees.plan(query)[i];
      chooser.tree.node(index).known |= BeamNode::kEvaluated;
    }
  }

  __device__ bool is_live() const {
    const ChoiceShared& choice = shared.choice;
    if (chooser.apart()) {
      const bool full = choice.finished_count == chooser.beam_size();
      const BeamEntry& last = choice.finished[chooser.beam_size() - 1];
      return choice.count > 0 && !(full && chooser.score(choice.beam[0]) <= chooser.score(last));
    }
    for (int32_t rank = 0; rank < choice.count; ++rank)
      if (choice.beam[rank].goes_on(chooser.max_length())) return true;
    return false;
  }

  __device__ bool is_missing(int32_t rank) const {
    return !shared.choice.beam[rank].finished && !chooser.evaluated(rank);
  }

  // Behind its node the model has no numbers, and so no likeliest token.
  __device__ bool is_numberless(int32_t rank) const {
    return chooser.evaluated(rank) && shared.choice.candidate_counts[rank] == 0;
  }

  // A hypothesis whose distribution is not known, or holds no numbers, may still be left out where
  // no extension of it, not even one of log-probability 0, would be among the choices made without
  // it.
  __device__ bool may_matter(int32_t rank, int32_t choice_count) const {
    int32_t places = chooser.beam_size();
    const BeamEntry& entry = shared.choice.beam[rank];
    for (int32_t i = 0; i < choice_count; ++i) {
      const BeamChoice& choice = shared.choice.choices[i];
      places -= chooser.apart() && choice.token_id == problem.eos_id ? 0 : 1;
      if (places == 0) return choice.score <= chooser.score(entry.log_prob, entry.length + 1);
    }
    return true;
  }

  // One thread's work: the next beam, or that it depends on what is not known.
  __device__ bool advance(int32_t choice_count) const {
    const int32_t count = shared.choice.count;
    for (int32_t rank = 0; rank < count; ++rank)
      if (is_missing(rank) && may_matter(rank, choice_count)) return false;
    for (int32_t rank = 0; rank < count; ++rank)
      if (is_numberless(rank) && may_matter(rank, choice_count)) {
        shared.answer.state = BeamAnswer::kNoNumbers;
        return false;
      }
    for (int32_t rank = 0; rank < count; ++rank) {
      if (shared.choice.beam[rank].finished || is_missing(rank)) continue;
      ++shared.answer.emitted_tokens;
      shared.answer.accepted_tokens += (shared.choice.known[rank] & BeamNode::kDrafted) != 0;
    }
    ++shared.answer.length;
    chooser.extend(choice_count);
    return true;
  }

  // Whether a step of beam search could be taken.
  __device__ bool step() const {
    if (threadIdx.x == 0) shared.goes_on = is_live();
    __syncthreads();
    const bool live = shared.goes_on;
    if (!live) return false;
    const int32_t choice_count = chooser.choose();
    if (threadIdx.x == 0) shared.goes_on = advance(choice_count);
    __syncthreads();
    const bool advanced = shared.goes_on;
    if (!advanced) return false;
    chooser.settle();
    return true;
  }

  // Frees what is not needed any more and plans the last tokens that are not evaluated.
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
      if (is_missing(rank)) problem.rows.trees.plan(query)[planned++] = choice.beam[rank].node;
    shared.answer.planned_count = planned;
  }

  // `live`: whether the search goes on.
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
  if (shared.answer.state == BeamAnswer::kNoNumbers) {
    if (threadIdx.x == 0) answer = shared.answer;
    return;
  }
  replayer.close(replayer.is_live());
}

}  // namespace molspec::cuda
