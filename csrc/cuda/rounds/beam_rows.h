// Standard beam search on a device, with one row of state for each query. It is the search of
// search/beam.h without a lookahead, split into the operators of a round:
//
//   stage_beams    the last token of every live hypothesis as a node of the next decoder_step
//   decoder_step
//   rank_tokens    the likeliest tokens after every node
//   extend_beams   the next beam
//
// The host begins a row by writing its answer's head and its first hypothesis, and reads the
// answers from time to time.
//
// Live hypotheses have the same length, so a round needs one slot of the cache for each, and the
// slots of a query are beam_size *lanes* of positions: nothing is allocated or freed. A hypothesis
// stays in the lane of the one that it extends, unless a better one does; then it goes to a free
// lane. So its path touches few blocks. No slot is written twice.

#pragma once

#include <cuda_runtime.h>

#include "common/answers.h"
#include "common/limits.h"
#include "ops/steps.h"

namespace molspec::cuda {

// Hypotheses by rank: those of the beam and, if hypotheses finish apart, as many for the finished
// ones. When the query is done, the token ids of the answers by rank follow.
struct BeamAnswers {
  uint8_t* data;  // [query, stride]
  int64_t query_count, stride;
  int64_t beam_size, hypothesis_count;  // hypothesis_count: beam_size, or twice that
  int64_t capacity;                     // positions of a path: BOS and tokens

  MOLSPEC_ANYWHERE BeamAnswer& head(int64_t query) const {
    return *reinterpret_cast<BeamAnswer*>(data + query * stride);
  }
  MOLSPEC_ANYWHERE BeamHypothesis* beam(int64_t query) const {
    return reinterpret_cast<BeamHypothesis*>(data + query * stride + sizeof(BeamAnswer));
  }
  MOLSPEC_ANYWHERE BeamHypothesis* finished(int64_t query) const { return beam(query) + beam_size; }
  MOLSPEC_ANYWHERE int32_t* token_ids(int64_t query, int64_t rank) const {
    return reinterpret_cast<int32_t*>(beam(query) + hypothesis_count) + rank * capacity;
  }
  MOLSPEC_ANYWHERE bool finished_apart() const { return hypothesis_count > beam_size; }
  MOLSPEC_ANYWHERE int32_t max_length(int64_t query) const {
    const int32_t requested = head(query).max_length;
    return requested < capacity ? requested : static_cast<int32_t>(capacity) - 1;
  }
};

// Shared by the operators of a round.
struct BeamRows {
  BeamAnswers answers;
  BeamNode* nodes;  // [query, beam_size, lane_size]: slot `lane * lane_size + position`
  // [query, 2, beam_size, capacity]: the slots of the paths of live hypotheses, by rank; a round
  // reads those of one half, and writes the other.
  int32_t* path_slots;
  int64_t lane_size;  // whole blocks

  MOLSPEC_ANYWHERE BeamNode* tree(int64_t query) const { return nodes + slot(query, 0); }
  MOLSPEC_ANYWHERE int32_t slot(int64_t query, int64_t own) const {
    return static_cast<int32_t>(query * answers.beam_size * lane_size + own);
  }
  MOLSPEC_ANYWHERE int64_t path_begin(int64_t query, int64_t length, int64_t rank) const {
    return ((2 * query + length % 2) * answers.beam_size + rank) * answers.capacity;
  }
};

// The likeliest tokens after every node of a step.
struct BestTokens {
  int32_t* ids;      // [node, count]
  float* log_probs;  // [node, count]
  int64_t count;     // candidate_count (rules/beam.h)
};

// stage_beams: the live hypotheses of every query -> nodes of the next decoder_step, query by
// query. Gaps follow. If a query does not fit, it and those after it wait for a later round. A new
// query begins with BOS.
struct StageBeamsProblem {
  BeamRows rows;  // written: the counts of a step, first_node, BOS
  Node* nodes;    // [node_count], written; path_begin is into rows.path_slots
  int64_t node_count;
  int32_t bos_id;
};
void stage_beams(const StageBeamsProblem& problem, cudaStream_t stream);

// rank_tokens: log-probs after every node -> its likeliest tokens, best first, the lower id first
// among equals. NaN is skipped; a row that begins with NaN, or whose maximum is infinite, has no
// token, as on the host. Missing tokens have the id kNoToken.
struct RankTokensProblem {
  const Node* nodes;       // [node_count]; gaps are left out
  const float* log_probs;  // [node_count, vocab_size]
  BestTokens best;         // written
  int64_t node_count, vocab_size;
};
void rank_tokens(const RankTokensProblem& problem, cudaStream_t stream);

// extend_beams: the likeliest tokens after every node -> the next beam: the best extensions and
// finished hypotheses, by score, then the rank of the hypothesis that they extend, then token id. A
// query is done if no hypothesis is live or, if they finish apart, none could be better than the
// last of a full list.
struct ExtendBeamsProblem {
  BeamRows rows;  // written
  BestTokens best;
  const double* length_norms;  // [capacity]: scores are log_prob / length_norms[length]
  int32_t eos_id;
};
void extend_beams(const ExtendBeamsProblem& problem, cudaStream_t stream);

}  // namespace molspec::cuda
