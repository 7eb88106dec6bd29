// look_ahead on the GPU: a block a query. Each warp guesses for one hypothesis at a time.

#pragma once

#include "cuda/rounds/beam_rows.h"
#include "cuda/rounds/choose_beams.cuh"
#include "cuda/rounds/guess_tokens.cuh"

namespace molspec::cuda {

constexpr int kLookAheadWarps = 10;
constexpr int kLookAheadThreads = kLookAheadWarps * kWarp;

struct LookAheadShared {
  // Scores, the warps' scratch memory for guesses, and tables that they read: the first two are
  // never needed at once, and share memory if there is not enough for both.
  static constexpr int kArena = kMostScores * sizeof(double);

  ChoiceShared choice;
  alignas(16) uint8_t arena[kArena];
  int32_t planned_count, budget, continues;
};

// The lookahead of one query, by a block of threads.
struct BeamPredictor {
  const LookAheadProblem& problem;
  const int query;
  LookAheadShared& shared;
  const BeamChooser chooser;
  const Guesser guesser;        // of this thread's warp
  const int32_t guesser_count;  // warps that guess, the first of the block

  __device__ const BeamTree& tree() const { return chooser.tree; }
  __device__ BeamNode& node(int32_t index) const { return chooser.tree.node(index); }
  __device__ GuessStateView state(int32_t index) const {
    return guess_state_of(problem.guess.state(query, index), guesser.rules.text);
  }

  // Calls work(rank) for the hypotheses of this warp.
  template <typename Work>
  __device__ void for_ranks(int32_t count, Work work) const {
    if (warp_index() >= guesser_count) return;
    for (int32_t rank = warp_index(); rank < count; rank += guesser_count) work(rank);
  }

  // Computes the guess states of all nodes on the paths of the beam, whose hypotheses are `length`
  // tokens long; those of the first `from` tokens exist. For a shared node the first path does it.
  __device__ void follow_beam(int32_t from, int32_t length) const {
    for (int32_t position = from; position <= length; ++position) {
      for_ranks(shared.choice.count, [&](int32_t rank) {
        const int32_t index = follower_of(rank, position);
        if (index == BeamNode::kNone) return;
        if (position == 0) {
          guesser.start(state(index));
        } else {
          guesser.advance(state(on_path(rank, position - 1)), node(index).token_id, state(index));
        }
        if (guesser.team.leads()) node(index).known |= BeamNode::kFollowed;
      });
      __syncthreads();
    }
  }

  __device__ int32_t on_path(int32_t rank, int32_t position) const {
    return tree().on_path(shared.choice.beam[rank].node, position);
  }
  __device__ bool continues(int32_t rank) const { return !shared.choice.beam[rank].finished; }

  // A hypothesis' node at a position, if no earlier hypothesis has it and it has no state yet.
  // Lanes stride over the earlier hypotheses; all synchronise before one of them writes.
  __device__ int32_t follower_of(int32_t rank, int32_t position) const {
    if (!continues(rank)) return BeamNode::kNone;
    const int32_t index = on_path(rank, position);
    bool taken = (node(index).known & BeamNode::kFollowed) != 0;
    for (int32_t other = lane_index(); other < rank; other += kWarp)
      taken |= continues(other) && on_path(other, position) == index;
    return __ballot_sync(~0U, taken) ? BeamNode::kNone : index;
  }

  // Guesses the likeliest tokens of hypotheses whose distribution is not known.
  __device__ void guess() const {
    for_ranks(shared.choice.count, [&](int32_t rank) {
      const BeamEntry& entry = shared.choice.beam[rank];
      const int32_t known = node(entry.node).known;
      __syncwarp();  // before one lane writes what all read
      const bool expands =
          entry.continues(chooser.max_length()) && entry.confidence >= problem.min_confidence;
      if (!expands || (known & (BeamNode::kEvaluated | BeamNode::kGuessed)) != 0) return;
      write_guesses(entry.node);
      if (guesser.team.leads()) node(entry.node).known |= BeamNode::kGuessed;
    });
    __syncthreads();
  }

  __device__ void write_guesses(int32_t index) const {
    const int32_t width = chooser.width();
    const int64_t at = problem.rows.trees.slot(query, index) * problem.best.count;
    const int32_t count =
        guesser.tokens(state(index), [&](int32_t token, float log_prob, int32_t place) {
          if (place >= width) return;
          problem.best.ids[at + place] = token;
          problem.best.log_probs[at + place] = log_prob;
        });
    for (int32_t i = count + lane_index(); i < width; i += kWarp)
      problem.best.ids[at + i] = kNoToken;
  }

  // Computes the guess states of the nodes that the step has added.
  __device__ void follow_new() const {
    for_ranks(shared.choice.count, [&](int32_t rank) {
      const BeamEntry& entry = shared.choice.beam[rank];
      if (entry.parent == BeamNode::kNone) return;
      guesser.advance(state(entry.parent), node(entry.node).token_id, state(entry.node));
      if (guesser.team.leads()) node(entry.node).known |= BeamNode::kFollowed;
    });
    __syncthreads();
  }

  // For one thread: plans the nodes that beam search probably reaches. Returns whether there are
  // any.
  __device__ bool plan() const {
    bool live = false;
    for (int32_t rank = 0; rank < shared.choice.count; ++rank) {
      const BeamEntry& entry = shared.choice.beam[rank];
      if (!entry.continues(chooser.max_length()) || entry.confidence < problem.min_confidence)
        continue;
      live = true;
      const int32_t known = shared.choice.known[rank];
      if ((known & (BeamNode::kEvaluated | BeamNode::kDrafted)) != 0 || shared.budget == 0)
        continue;
      node(entry.node).known = known | BeamNode::kDrafted;
      --shared.budget;
      problem.rows.trees.plan(query)[shared.planned_count++] = entry.node;
    }
    return live;
  }

  // Takes a step of the lookahead. Returns whether another step may follow. A hypothesis that ends
  // may keep its place in the beam: the hypotheses that it displaces are unlikely too.
  __device__ bool step() const {
    guess();
    const int32_t choice_count = chooser.choose();
    if (threadIdx.x == 0) chooser.extend(choice_count);
    __syncthreads();
    chooser.settle();
    follow_new();
    chooser.read_known();
    __syncthreads();
    if (threadIdx.x == 0) shared.continues = plan() && shared.budget > 0;
    __syncthreads();
    return shared.continues;
  }

  __device__ bool has_room() const {
    const int32_t needed = problem.rows.reserve(problem.lookahead_steps);
    return problem.rows.trees.node_count - shared.choice.used_count >= needed;
  }

  __device__ void look_ahead(BeamAnswer& answer) const {
    follow_beam(answer.looked_from + 1, answer.length);
    bool more = problem.node_budget > 0;
    for (int32_t i = 0; i < problem.lookahead_steps && more && has_room(); ++i) more = step();
    tree().write_masks();
    if (threadIdx.x != 0) return;
    answer.drafted_tokens += shared.planned_count - answer.planned_count;
    answer.planned_count = shared.planned_count;
    answer.used_count = shared.choice.used_count;
    answer.looked_from = answer.length;
  }
};

// A query whose rows are inconsistent gets no drafts.
inline __global__ void look_ahead_kernel(LookAheadProblem problem) {
  await_previous();
  __shared__ LookAheadShared shared;
  const int query = blockIdx.x;
  const BeamRows& rows = problem.rows;
  BeamAnswer& answer = rows.answers.head(query);
  const GuessTensors& guess = problem.guess;
  if (answer.state != BeamAnswer::kLive || answer.looked_from == answer.length) return;
  if (!Guesser::fits(guess.tables, guess.text(query), guess.text_stride, guess.state_stride))
    return;
  begin_tree(rows, query, problem.bos_id);
  const BeamTree tree{rows.trees, query, shared.choice.masks};
  Stage stage{shared.arena, LookAheadShared::kArena};
  auto* scores = reinterpret_cast<double*>(stage.take(rows.answers.beam_size * problem.best.count *
                                                      static_cast<int64_t>(sizeof(double))));
  const int64_t own_size = round16(GuessShared::size(Guesser::alphabet(guess.tables)));
  const auto guesser_count =
      static_cast<int32_t>(min(int64_t{kLookAheadWarps}, LookAheadShared::kArena / own_size));
  uint8_t* guesses = stage.take(guesser_count * own_size);
  const bool is_apart = guesses != nullptr;
  if (!is_apart) guesses = shared.arena;
  const int32_t guesser_index = min(warp_index(), guesser_count - 1);
  auto& own = *reinterpret_cast<GuessShared*>(guesses + guesser_index * own_size);
  Guesser guesser = Guesser::on(guess.tables, guess.text(query), own);
  if (is_apart) guesser.keep(stage);
  const BeamPredictor predictor{problem,
                                query,
                                shared,
                                {rows, problem.best, problem.length_norms, problem.eos_id, true,
                                 problem.min_confidence, tree, shared.choice, scores},
                                guesser,
                                guesser_count};
  if (threadIdx.x == 0) {
    shared.planned_count = answer.planned_count;
    shared.budget = problem.node_budget;
  }
  predictor.chooser.read();
  predictor.look_ahead(answer);
}

}  // namespace molspec::cuda
