// One step of beam search on the GPU, by the block of a query: the best extensions of a beam, and
// the next beam. A candidate's place is the number of candidates before it.

#pragma once

#include "cuda/rounds/beam_tree.cuh"
#include "rules/beam.h"

namespace molspec::cuda {

constexpr int kBeamThreads = 128;
constexpr int kMostCandidates = kWidestBeam + 1;  // of a hypothesis
constexpr int kMostScores = kWidestBeam * kMostCandidates;

// The lists of a query (rules/beam.h), and scratch memory.
struct ChoiceShared {
  BeamEntry beam[kWidestBeam], next[kWidestBeam];
  BeamEntry finished[kWidestBeam + 1];  // apart, best first
  int32_t count, next_count, finished_count;
  int32_t known[kWidestBeam];               // of the hypotheses' nodes
  int32_t candidate_counts[kWidestBeam];    // 0: left out
  BeamChoice choices[2 * kWidestBeam + 1];  // best first
  int32_t guessed;                          // whether a hypothesis is extended by guesses
  int32_t used_count;                       // nodes of the tree
  BlockMask masks[kMostBeamBlocks];
};

// Threads stride over the items that the last word of each function's comment names. With
// `guessing`, hypotheses whose distribution is unknown are extended by guesses if they are likely
// enough; otherwise they are left out.
struct BeamChooser {
  const BeamRows& rows;
  const BestTokens& best;
  const double* length_norms;
  const int32_t eos;
  const bool guessing;
  const float min_confidence;
  const BeamTree tree;
  ChoiceShared& shared;
  double* scores;  // [kMostScores], shared
  // Used everywhere, so it is read once.
  const int32_t longest = rows.answers.max_length(tree.query);

  __device__ int32_t beam_size() const { return static_cast<int32_t>(rows.answers.beam_size); }
  __device__ bool apart() const { return rows.answers.finished_apart(); }
  __device__ int32_t max_length() const { return longest; }
  __device__ int32_t width() const { return static_cast<int32_t>(best.count); }
  __device__ double score(double log_prob, int32_t length) const {
    return log_prob / length_norms[length];
  }
  __device__ bool evaluated(int32_t rank) const {
    return (shared.known[rank] & BeamNode::kEvaluated) != 0;
  }
  __device__ bool is_non_finite(int32_t rank) const {
    return evaluated(rank) && shared.candidate_counts[rank] == 0;
  }
  __device__ bool drafted(int32_t rank) const {
    return (shared.known[rank] & BeamNode::kDrafted) != 0;
  }
  __device__ int32_t eos_id() const { return eos; }
  __device__ int32_t most_choices() const { return molspec::most_choices(beam_size(), apart()); }

  __device__ void read() const {
    const BeamAnswer& answer = rows.answers.head(tree.query);
    read_places(rows.answers.beam(tree.query), answer.count, shared.beam);
    if (apart())
      read_places(rows.answers.finished(tree.query), answer.finished_count, shared.finished);
    if (threadIdx.x == 0) {
      shared.count = answer.count;
      shared.finished_count = answer.finished_count;
      shared.used_count = answer.used_count;
      shared.guessed = 0;
    }
    tree.read_masks();
    __syncthreads();
  }
  // ---------------------------------------------------------------------------------- choices

  // The best extensions of the beam, best first, and how many there are.
  __device__ int32_t choose() const {
    count_candidates();
    __syncthreads();
    score_candidates();
    __syncthreads();
    rank_candidates();
    __syncthreads();
    int32_t total = 0;
    for (int32_t rank = 0; rank < shared.count; ++rank) total += shared.candidate_counts[rank];
    if (shared.guessed && total > most_choices()) {
      weigh_choices();
      __syncthreads();
    }
    return min(total, most_choices());
  }

  __device__ bool stays(int32_t rank) const {
    return molspec::stays(shared.beam[rank], max_length(), evaluated(rank), guessing,
                          min_confidence);
  }

  // Ranks.
  __device__ void read_known() const {
    for (int32_t rank = threadIdx.x; rank < shared.count; rank += blockDim.x)
      shared.known[rank] = tree.node(shared.beam[rank].node).known;
  }

  // Ranks.
  __device__ void count_candidates() const {
    read_known();
    for (int32_t rank = threadIdx.x; rank < shared.count; rank += blockDim.x) {
      int32_t count = 1;
      if (!stays(rank)) {
        const int64_t slot = rows.trees.slot(tree.query, shared.beam[rank].node);
        count = evaluated(rank) || guessing ? token_count(best, slot) : 0;
        if (!evaluated(rank) && guessing) atomicMax(&shared.guessed, 1);
      }
      shared.candidate_counts[rank] = count;
    }
  }

  __device__ int64_t best_of(int32_t rank) const {
    return rows.trees.slot(tree.query, shared.beam[rank].node) * best.count;
  }

  __device__ BeamChoice choice(int32_t rank, int32_t i) const {
    const BeamEntry& entry = shared.beam[rank];
    const double known = scores[rank * width() + i];
    if (stays(rank)) return {{known, rank, BeamChoice::kCarried}, entry.log_prob, entry.confidence};
    const int64_t at = best_of(rank) + i;
    const float next = best.log_probs[at];
    const float likely = evaluated(rank) ? 1.0f : expf(next);
    return {{known, rank, best.ids[at]},
            entry.log_prob + static_cast<double>(next),
            entry.confidence * likely};
  }

  // Candidates of all ranks.
  template <typename Work>
  __device__ void for_candidates(Work work) const {
    for (int32_t c = threadIdx.x; c < shared.count * width(); c += blockDim.x)
      if (c % width() < shared.candidate_counts[c / width()]) work(c / width(), c % width());
  }

  __device__ void score_candidates() const {
    for_candidates([&](int32_t rank, int32_t i) {
      const BeamEntry& entry = shared.beam[rank];
      scores[rank * width() + i] =
          stays(rank)
              ? score(entry.log_prob, entry.length)
              : score(entry.log_prob + static_cast<double>(best.log_probs[best_of(rank) + i]),
                      entry.length + 1);
    });
  }

  // The number of candidates before candidate i of a rank, `mine`. A rank's scores fall; among
  // equal ones the tokens need not rise. Few are equal: they are compared separately.
  __device__ int32_t place_of(int32_t own_rank, int32_t own_i, const BeamChoice& mine) const {
    int32_t place = 0, equal = 0;
    for (int32_t rank = 0; rank < shared.count && place <= most_choices(); ++rank)
      for (int32_t i = 0; i < shared.candidate_counts[rank]; ++i) {
        const double other = scores[rank * width() + i];
        if (other < mine.score) break;
        place += other > mine.score;
        equal += other == mine.score;
      }
    for (int32_t c = 0; equal > 1 && c < shared.count * width(); ++c) {
      const int32_t rank = c / width(), i = c % width();
      if (i >= shared.candidate_counts[rank] || scores[c] != mine.score) continue;
      if (rank == own_rank && i == own_i) continue;
      place += better(choice(rank, i), mine);
    }
    return place;
  }

  // Ranks one candidate more than is chosen: the first that is left out.
  __device__ void rank_candidates() const {
    for_candidates([&](int32_t rank, int32_t i) {
      const BeamChoice mine = choice(rank, i);
      const int32_t place = place_of(rank, i, mine);
      if (place <= most_choices()) shared.choices[place] = mine;
    });
  }

  __device__ void weigh_choices() const {
    const double left_out = shared.choices[most_choices()].score;
    for (int32_t i = threadIdx.x; i < most_choices(); i += blockDim.x) {
      BeamChoice& choice = shared.choices[i];
      choice.confidence *= chosen_odds(choice.score, left_out);
    }
  }

  // -------------------------------------------------------------------------------- next beam

  // For one thread.
  __device__ void extend(int32_t choice_count) const {
    molspec::extend(*this, shared, choice_count, guessing);
  }

  // All hypotheses: the beam's, then those that finished apart.
  __device__ int32_t entry_count() const { return shared.next_count + shared.finished_count; }
  __device__ BeamEntry& entry(int32_t i) const {
    return i < shared.next_count ? shared.next[i] : shared.finished[i - shared.next_count];
  }

  // Looks up the nodes of the next beam and makes it the beam.
  __device__ void settle() const {
    tree.settle(
        entry_count(), [&](int32_t i) -> BeamEntry& { return entry(i); }, shared.used_count);
    for (int32_t i = threadIdx.x; i < entry_count(); i += blockDim.x) {
      entry(i).token = kNoToken;
      if (i < shared.next_count) shared.beam[i] = entry(i);
    }
    if (threadIdx.x == 0) {
      shared.count = shared.next_count;
      shared.guessed = 0;
    }
    __syncthreads();
  }
};

}  // namespace molspec::cuda
