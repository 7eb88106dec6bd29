// extend_beams on the GPU: a block a query. A candidate's order is the number of candidates before
// it.

#pragma once

#include "cuda/rounds/beam_rows.h"
#include "cuda/warp.cuh"
#include "rules/beam.h"

namespace molspec::cuda {

constexpr int kBeamThreads = 128;
constexpr int kMostCandidates = kWidestBeam + 1;  // of a hypothesis

// The lists of a query (rules/beam.h), and scratch memory.
struct ExtendShared {
  BeamEntry beam[kWidestBeam], next[kWidestBeam];
  BeamEntry finished[kWidestBeam + 1];  // apart, best first
  int32_t count, next_count, finished_count;
  int32_t nodes[kWidestBeam];             // of the step, by rank
  int32_t candidate_counts[kWidestBeam];  // by rank
  double scores[kWidestBeam * kMostCandidates];
  BeamChoice choices[2 * kWidestBeam];  // best first
  int32_t slots[2 * kWidestBeam];       // of the new nodes, by entry; BeamNode::kNone: no new node
  BeamAnswer answer;
};

// The lists after a step.
struct NextLists {
  const BeamEntry *beam, *finished;
  int32_t count, finished_count;
};

// The step of one query, by a block of threads, and the stepper of rules/beam.h. Threads stride
// over the items that the last word of a function's comment names.
struct BeamExtender {
  const ExtendBeamsProblem& problem;
  const int query;
  ExtendShared& shared;
  // Used everywhere, so it is read once.
  const Stop its_stop{problem.eos_id, problem.rows.answers.max_length(query)};

  __device__ int32_t beam_size() const {
    return static_cast<int32_t>(problem.rows.answers.beam_size);
  }
  __device__ const Stop& stop() const { return its_stop; }
  __device__ bool apart() const { return problem.rows.answers.finished_apart(); }
  __device__ double score(double log_prob, int32_t length) const {
    return log_prob / problem.length_norms[length];
  }
  __device__ bool evaluated(int32_t /*rank*/) const { return true; }
  __device__ bool is_non_finite(int32_t rank) const { return shared.candidate_counts[rank] == 0; }
  __device__ bool drafted(int32_t /*rank*/) const { return false; }

  __device__ int32_t width() const { return static_cast<int32_t>(problem.best.count); }
  __device__ int32_t most_choices() const { return molspec::most_choices(beam_size(), apart()); }
  __device__ bool continues(int32_t rank) const { return shared.beam[rank].continues(its_stop); }

  // Hypotheses.
  __device__ void read(const BeamHypothesis* kept, int32_t count, BeamEntry* entries) const {
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x)
      entries[i] = {
          kept[i].log_prob, kept[i].node, kept[i].length, kept[i].finished, 1.0f, kNoToken, i};
  }

  // ---------------------------------------------------------------------------------- choices

  // Ranks.
  __device__ void count_candidates() const {
    for (int32_t rank = threadIdx.x; rank < shared.count; rank += blockDim.x) {
      int32_t node = shared.answer.first_node;
      for (int32_t other = 0; other < rank; ++other) node += !shared.beam[other].finished;
      shared.nodes[rank] = node;
      shared.candidate_counts[rank] = continues(rank) ? token_count(node) : 1;
    }
  }
  // The number of a node's likeliest tokens.
  __device__ int32_t token_count(int32_t node) const {
    int32_t count = width();
    while (count > 0 && problem.best.ids[node * problem.best.count + count - 1] == kNoToken)
      --count;
    return count;
  }

  // Candidates of all ranks.
  template <typename Work>
  __device__ void for_candidates(Work work) const {
    for (int32_t c = threadIdx.x; c < shared.count * width(); c += blockDim.x)
      if (c % width() < shared.candidate_counts[c / width()]) work(c / width(), c % width());
  }

  __device__ double log_prob(int32_t rank, int32_t i) const {
    const double before = shared.beam[rank].log_prob;
    if (!continues(rank)) return before;
    return before + static_cast<double>(problem.best.log_probs[best_of(rank) + i]);
  }
  __device__ int64_t best_of(int32_t rank) const { return shared.nodes[rank] * problem.best.count; }
  __device__ BeamChoice choice(int32_t rank, int32_t i) const {
    const int32_t token =
        continues(rank) ? problem.best.ids[best_of(rank) + i] : BeamChoice::kCarried;
    return {{shared.scores[rank * width() + i], rank, token}, log_prob(rank, i), 1.0f};
  }

  __device__ void score_candidates() const {
    for_candidates([&](int32_t rank, int32_t i) {
      const int32_t length = shared.beam[rank].length + continues(rank);
      shared.scores[rank * width() + i] = score(log_prob(rank, i), length);
    });
  }

  // The number of candidates before candidate i of a rank, `mine`. A rank's scores fall; among
  // equal ones the tokens need not rise.
  __device__ int32_t order_of(int32_t own_rank, int32_t own_i, const BeamChoice& mine) const {
    int32_t order = 0;
    for (int32_t rank = 0; rank < shared.count && order < most_choices(); ++rank)
      for (int32_t i = 0; i < shared.candidate_counts[rank]; ++i) {
        const double other = shared.scores[rank * width() + i];
        if (other < mine.score) break;
        const bool equal = other == mine.score, same = rank == own_rank && i == own_i;
        order += !same && (!equal || better(choice(rank, i), mine));
      }
    return order;
  }

  __device__ void rank_candidates() const {
    for_candidates([&](int32_t rank, int32_t i) {
      const BeamChoice mine = choice(rank, i);
      const int32_t order = order_of(rank, i, mine);
      if (order < most_choices()) shared.choices[order] = mine;
    });
  }

  // -------------------------------------------------------------------------------- next beam

  // For one thread: makes the next lists.
  __device__ void step() const {
    int32_t count = 0;
    for (int32_t rank = 0; rank < shared.count; ++rank) count += shared.candidate_counts[rank];
    count = min(count, most_choices());
    BeamAnswer& answer = shared.answer;
    if (replay(*this, shared, count, answer) == Verdict::kNoNumbers) {
      answer.state = BeamAnswer::kNoNumbers;
      return;
    }
    molspec::extend(*this, shared, count, false);
    const NextLists lists{shared.next, shared.finished, shared.next_count, shared.finished_count};
    if (!is_live(*this, lists)) answer.state = BeamAnswer::kDone;
    ++answer.length;
    answer.count = shared.next_count;
    answer.finished_count = shared.finished_count;
    answer.live_count = 0;
    for (int32_t i = 0; i < shared.next_count; ++i) answer.live_count += !shared.next[i].finished;
    find_slots();
  }

  // All hypotheses: the beam's, then those that finished apart.
  __device__ int32_t entry_count() const { return shared.next_count + shared.finished_count; }
  __device__ BeamEntry& entry(int32_t i) const {
    return i < shared.next_count ? shared.next[i] : shared.finished[i - shared.next_count];
  }

  // For one thread: a new node's slot, in its parent's lane if no earlier one takes that.
  __device__ void find_slots() const {
    const auto lane_size = static_cast<int32_t>(problem.rows.lane_size);
    uint64_t taken = 0;
    const auto take = [&](int32_t i, int32_t lane) {
      taken |= uint64_t{1} << lane;
      shared.slots[i] = lane * lane_size + shared.answer.length;
    };
    for (int32_t i = 0; i < entry_count(); ++i) {
      shared.slots[i] = BeamNode::kNone;
      const int32_t lane = entry(i).node / lane_size;
      if (entry(i).token != kNoToken && (taken >> lane & 1) == 0) take(i, lane);
    }
    int32_t free = 0;
    for (int32_t i = 0; i < entry_count(); ++i) {
      if (entry(i).token == kNoToken || shared.slots[i] != BeamNode::kNone) continue;
      while ((taken >> free & 1) != 0) ++free;
      take(i, free);
    }
  }

  // Writes new nodes, and all hypotheses. Hypotheses.
  __device__ void settle() const {
    const BeamAnswers& answers = problem.rows.answers;
    for (int32_t i = threadIdx.x; i < entry_count(); i += blockDim.x) {
      BeamEntry& mine = entry(i);
      if (const int32_t slot = shared.slots[i]; slot != BeamNode::kNone) {
        problem.rows.tree(query)[slot] = {mine.token, mine.node};
        mine.node = slot;
      }
      BeamHypothesis& kept = i < shared.next_count ? answers.beam(query)[i]
                                                   : answers.finished(query)[i - shared.next_count];
      kept = {mine.log_prob, mine.node, mine.length, mine.finished};
    }
  }

  // Writes the paths of the new nodes: their parents', then their own slots. Warps stride over
  // hypotheses, lanes over positions.
  __device__ void copy_paths() const {
    const BeamRows& rows = problem.rows;
    const int32_t length = shared.answer.length;
    for (int32_t i = warp_index(); i < shared.next_count; i += kBeamThreads / kWarp) {
      if (shared.slots[i] == BeamNode::kNone) continue;
      int32_t* path = rows.path_slots + rows.path_begin(query, length, i);
      copy_words(rows.path_slots + rows.path_begin(query, length - 1, shared.next[i].parent), path,
                 length);
      if (lane_index() == 0) path[length] = rows.slot(query, shared.slots[i]);
    }
  }

  // Writes the token ids of the answers by rank. The last node of one was written by the same
  // thread (if new nodes finished apart, no hypothesis is in the beam), or in an earlier round.
  // Hypotheses.
  __device__ void write_token_ids() const {
    const BeamEntry* best = apart() ? shared.finished : shared.next;
    const int32_t count = apart() ? shared.finished_count : shared.next_count;
    const BeamNode* tree = problem.rows.tree(query);
    for (int32_t rank = threadIdx.x; rank < count; rank += blockDim.x) {
      int32_t* token_ids = problem.rows.answers.token_ids(query, rank);
      int32_t at = best[rank].node;
      for (BeamNode node = tree[at]; node.parent != BeamNode::kNone; node = tree[at]) {
        token_ids[at % problem.rows.lane_size - 1] = node.token_id;
        at = node.parent;
      }
    }
  }
};

inline __global__ void extend_beams_kernel(ExtendBeamsProblem problem) {
  await_previous();
  __shared__ ExtendShared shared;
  const int query = blockIdx.x;
  const BeamAnswers& answers = problem.rows.answers;
  const BeamAnswer& answer = answers.head(query);
  if (answer.state != BeamAnswer::kLive || answer.first_node == BeamAnswer::kNotStaged) return;
  const BeamExtender extender{problem, query, shared};
  extender.read(answers.beam(query), answer.count, shared.beam);
  if (extender.apart())
    extender.read(answers.finished(query), answer.finished_count, shared.finished);
  if (threadIdx.x == 0) {
    shared.answer = answer;
    shared.count = answer.count;
    shared.finished_count = answer.finished_count;
  }
  __syncthreads();
  extender.count_candidates();
  __syncthreads();
  extender.score_candidates();
  __syncthreads();
  extender.rank_candidates();
  __syncthreads();
  if (threadIdx.x == 0) {
    extender.step();
    answers.head(query) = shared.answer;
  }
  __syncthreads();
  if (shared.answer.state == BeamAnswer::kNoNumbers) return;
  extender.copy_paths();
  extender.settle();
  if (shared.answer.state == BeamAnswer::kDone) extender.write_token_ids();
}

}  // namespace molspec::cuda
