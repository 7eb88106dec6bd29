// select_beams on the GPU: a block a query. The beam and its candidates lie in shared memory; a
// candidate's place is the number of candidates before it.

#pragma once

#include "cuda/kernels.h"
#include "cuda/stage_beams.cuh"
#include "ops/candidate.h"

namespace molspec::cuda {

constexpr int kSelectThreads = 128;
constexpr int kMostCandidates = kWidestBeam + 1;  // of a hypothesis

// An extension of a hypothesis of the beam, or that hypothesis itself where it is finished.
struct BeamChoice : RankedCandidate {
  static constexpr int32_t kCarried = -1;  // its token_id

  double log_prob;
};

// A place of the next beam, or of the finished list, before all others know theirs.
struct NextPlace {
  static constexpr int32_t kNoLane = -1;

  double log_prob;
  int32_t length, finished;
  int32_t from;   // the lane that it extends
  int32_t lane;   // its own, kNoLane where it must have another than that
  int32_t token;  // behind that lane's, or kNoToken
};

struct BeamSelection {
  BeamPlace beam[kWidestBeam];
  int32_t candidate_counts[kWidestBeam];
  int32_t nodes[kWidestBeam];
  double scores[kWidestBeam * kMostCandidates];  // by rank
  BeamChoice choices[2 * kWidestBeam];           // best first
  NextPlace next[kWidestBeam], finished[kWidestBeam + 1];
  bool taken[2 * kWidestBeam];  // lanes
  int32_t next_count, finished_count;
};

// What the threads of a block do for a query; they stride over what each function names.
struct BeamSelector {
  const SelectBeamsProblem& problem;
  const int query;
  const BeamAnswer answer;  // as it was
  BeamSelection& shared;

  __device__ int32_t beam_size() const { return static_cast<int32_t>(problem.answers.beam_size); }
  __device__ int32_t candidate_count() const {
    return static_cast<int32_t>(problem.candidate_count);
  }
  __device__ double score(double log_prob, int32_t length) const {
    return log_prob / problem.length_norms[length];
  }

  // Whether the model's log-probs are numbers. Every thread looks at all.
  __device__ bool has_numbers() const {
    bool numbers = true;
    for (int32_t i = 0; i < answer.live_count; ++i)
      numbers &=
          isfinite(problem.best_log_probs[(answer.first_node + i) * problem.candidate_count]);
    return numbers;
  }

  // Ranks.
  __device__ void read_places() const {
    const BeamPlace* places = problem.answers.beam(query);
    const BeamPlace* finished = problem.answers.finished(query);
    for (int32_t rank = threadIdx.x; rank < answer.count; rank += blockDim.x)
      shared.beam[rank] = places[rank];
    for (int32_t i = threadIdx.x; i < answer.finished_count; i += blockDim.x)
      shared.finished[i] = {finished[i].log_prob, finished[i].length, finished[i].finished,
                            finished[i].lane,     finished[i].lane,   kNoToken};
  }

  // Ranks. A finished hypothesis has one candidate: itself.
  __device__ void count_candidates() const {
    for (int32_t rank = threadIdx.x; rank < answer.count; rank += blockDim.x) {
      shared.nodes[rank] = answer.first_node + live_before(shared.beam, rank);
      const int32_t* ids = problem.best_ids + shared.nodes[rank] * problem.candidate_count;
      int32_t count = shared.beam[rank].finished ? 1 : candidate_count();
      while (count > 1 && ids[count - 1] == kNoToken) --count;
      shared.candidate_counts[rank] = count;
    }
  }

  __device__ BeamChoice choice(int32_t rank, int32_t i) const {
    const BeamPlace& place = shared.beam[rank];
    const double known = shared.scores[rank * candidate_count() + i];
    if (place.finished) return {{known, rank, BeamChoice::kCarried}, place.log_prob};
    const int64_t at = shared.nodes[rank] * problem.candidate_count + i;
    const double log_prob = place.log_prob + static_cast<double>(problem.best_log_probs[at]);
    return {{known, rank, problem.best_ids[at]}, log_prob};
  }

  // Candidates of all ranks.
  template <typename Work>
  __device__ void for_candidates(Work work) const {
    for (int32_t c = threadIdx.x; c < answer.count * candidate_count(); c += blockDim.x)
      if (c % candidate_count() < shared.candidate_counts[c / candidate_count()])
        work(c / candidate_count(), c % candidate_count());
  }

  __device__ void score_candidates() const {
    for_candidates([&](int32_t rank, int32_t i) {
      const BeamPlace& place = shared.beam[rank];
      const int32_t length = place.finished ? place.length : answer.length + 1;
      shared.scores[rank * candidate_count() + i] = score(choice(rank, i).log_prob, length);
    });
  }

  // Candidates before one. A rank's scores fall; among equal ones the tokens may not rise.
  __device__ int32_t place_of(const BeamChoice& mine, int32_t most) const {
    int32_t place = 0;
    for (int32_t rank = 0; rank < answer.count && place < most; ++rank)
      for (int32_t i = 0; i < shared.candidate_counts[rank]; ++i) {
        if (shared.scores[rank * candidate_count() + i] < mine.score) break;
        place += better(choice(rank, i), mine);
      }
    return place;
  }

  // Where hypotheses finish apart, every one may, which leaves its place to another.
  __device__ int32_t most_choices() const {
    return problem.answers.finished_apart() ? 2 * beam_size() : beam_size();
  }
  __device__ int32_t choice_count() const {
    int32_t count = 0;
    for (int32_t rank = 0; rank < answer.count; ++rank) count += shared.candidate_counts[rank];
    return min(count, most_choices());
  }

  __device__ void rank_candidates() const {
    for_candidates([&](int32_t rank, int32_t i) {
      const BeamChoice mine = choice(rank, i);
      const int32_t place = place_of(mine, most_choices());
      if (place < most_choices()) shared.choices[place] = mine;
    });
  }

  // From here to `close` it is one thread's work.
  __device__ void extend() const {
    shared.next_count = 0;
    shared.finished_count = answer.finished_count;
    const int32_t count = choice_count(), max_length = problem.answers.max_length(query);
    for (int32_t i = 0; i < count; ++i) {
      const NextPlace place = extended(shared.choices[i]);
      const bool ends = place.finished || place.length == max_length;
      if (problem.answers.finished_apart() && ends) {
        if (i < beam_size()) keep_finished(place);
      } else if (shared.next_count < beam_size()) {
        shared.next[shared.next_count++] = place;
      }
    }
    assign_lanes();
  }

  __device__ NextPlace extended(const BeamChoice& choice) const {
    const BeamPlace& parent = shared.beam[choice.parent_rank];
    if (choice.token_id == BeamChoice::kCarried)
      return {parent.log_prob, parent.length,      parent.finished,
              parent.lane,     NextPlace::kNoLane, kNoToken};
    const bool eos = choice.token_id == problem.eos_id;
    return {choice.log_prob, answer.length + 1,  eos,
            parent.lane,     NextPlace::kNoLane, eos ? kNoToken : choice.token_id};
  }

  // The best beam_size stay; among equals, who came first.
  __device__ void keep_finished(const NextPlace& place) const {
    const double mine = score(place.log_prob, place.length);
    int32_t at = shared.finished_count;
    for (; at > 0; --at) {
      const NextPlace& other = shared.finished[at - 1];
      if (!(mine > score(other.log_prob, other.length))) break;
      shared.finished[at] = other;
    }
    shared.finished[at] = place;
    shared.finished_count = min(shared.finished_count + 1, beam_size());
  }

  __device__ void assign_lanes() const {
    for (int32_t lane = 0; lane < problem.answers.lane_count; ++lane) shared.taken[lane] = false;
    for (int32_t i = 0; i < shared.next_count; ++i) {  // the first that extends a lane keeps it
      NextPlace& place = shared.next[i];
      if (!shared.taken[place.from]) place.lane = place.from;
      shared.taken[place.from] = true;
    }
    for (int32_t i = 0; i < shared.finished_count; ++i)
      if (shared.finished[i].lane != NextPlace::kNoLane)
        shared.taken[shared.finished[i].lane] = true;
    fill_lanes(shared.next, shared.next_count, 0);
    fill_lanes(shared.finished, shared.finished_count, beam_size());
  }

  __device__ void fill_lanes(NextPlace* places, int32_t count, int32_t lane) const {
    for (int32_t i = 0; i < count; ++i) {
      if (places[i].lane != NextPlace::kNoLane) continue;
      while (shared.taken[lane]) ++lane;
      places[i].lane = lane++;
    }
  }

  __device__ bool goes_on() const {
    if (problem.answers.finished_apart()) {
      const NextPlace &best = shared.next[0], &last = shared.finished[beam_size() - 1];
      const bool full = shared.finished_count == beam_size();
      return shared.next_count > 0 &&
             !(full && score(best.log_prob, best.length) <= score(last.log_prob, last.length));
    }
    return live_count() > 0 && answer.length + 1 < problem.answers.max_length(query);
  }

  __device__ int32_t live_count() const {
    int32_t live = 0;
    for (int32_t i = 0; i < shared.next_count; ++i) live += !shared.next[i].finished;
    return live;
  }

  __device__ void close() const {
    BeamAnswer closed = answer;
    closed.state = goes_on() ? BeamAnswer::kLive : BeamAnswer::kDone;
    closed.count = shared.next_count;
    closed.finished_count = shared.finished_count;
    closed.live_count = live_count();
    closed.length = answer.length + 1;
    closed.emitted_tokens += answer.live_count;
    problem.answers.head(query) = closed;
  }

  // Copies of the tokens, and of the slots where the hypothesis goes on, into lanes that are not
  // the ones extended; then the new tokens.
  __device__ void write_places(const NextPlace* next, int32_t count, BeamPlace* places) const {
    const BeamAnswers& answers = problem.answers;
    for (int32_t c = threadIdx.x; c < count * answer.length; c += blockDim.x) {
      const NextPlace& place = next[c / answer.length];
      if (place.lane == place.from) continue;
      const int32_t at = c % answer.length;
      answers.token_ids(query, place.lane)[at] = answers.token_ids(query, place.from)[at];
    }
    for (int32_t i = threadIdx.x; i < count; i += blockDim.x) {
      const NextPlace& place = next[i];
      if (place.token != kNoToken)
        answers.token_ids(query, place.lane)[answer.length] = place.token;
      places[i] = {place.log_prob, place.lane, place.length, place.finished, 0};
    }
  }

  __device__ void copy_paths() const {
    const int32_t positions = answer.length + 1;  // BOS has one
    for (int32_t c = threadIdx.x; c < shared.next_count * positions; c += blockDim.x) {
      const NextPlace& place = shared.next[c / positions];
      if (place.lane == place.from) continue;
      const int32_t at = c % positions;
      problem.paths.data[problem.paths.begin(query, place.lane) + at] =
          problem.paths.data[problem.paths.begin(query, place.from) + at];
    }
  }
};

inline __global__ void select_beams_kernel(SelectBeamsProblem problem) {
  __shared__ BeamSelection shared;
  const int query = blockIdx.x;
  const BeamSelector selector{problem, query, problem.answers.head(query), shared};
  const BeamAnswer& answer = selector.answer;
  if (answer.state != BeamAnswer::kLive || answer.first_node == BeamAnswer::kNotStaged) return;
  const bool numbers = selector.has_numbers();
  selector.read_places();
  __syncthreads();
  if (!numbers) {
    if (threadIdx.x == 0) problem.answers.head(query).state = BeamAnswer::kNoNumbers;
    return;
  }
  selector.count_candidates();
  __syncthreads();
  selector.score_candidates();
  __syncthreads();
  selector.rank_candidates();
  __syncthreads();
  if (threadIdx.x == 0) {
    selector.extend();
    selector.close();
  }
  __syncthreads();
  // Lanes of the beam that only finished ones extend may be taken by others below.
  selector.write_places(shared.finished, shared.finished_count, problem.answers.finished(query));
  __syncthreads();
  selector.copy_paths();
  selector.write_places(shared.next, shared.next_count, problem.answers.beam(query));
}

}  // namespace molspec::cuda
