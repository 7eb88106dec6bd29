// Beam search on a device, with one row of state for each query. It is the search of search/beam.h,
// split into the operators of a round:
//
//   stage_beams   the last token of every live hypothesis as a node of the next decoder_step
//   decoder_step
//   rank_tokens   the likeliest tokens after every node
//   replay_beams  standard beam search, for as many steps as distributions are known
//
// The host begins a row by writing its answer's head and its first place, and reads the answers
// from time to time.
//
// The state of a query is a *tree* of nodes. Node i of a query has slot i of the query's part of
// the cache, and row i of its paths, likeliest tokens and guess states. A node lies in its parent's
// block while there is room, so a path touches few blocks.

#pragma once

#include <cuda_runtime.h>

#include "common/answers.h"
#include "common/limits.h"
#include "ops/steps.h"

namespace molspec::cuda {

// Places by rank: those of the beam and, if hypotheses finish apart, as many for the finished ones.
// When the query is done, the token ids of both lists by rank follow.
struct BeamAnswers {
  uint8_t* data;  // [query, stride]
  int64_t query_count, stride;
  int64_t beam_size, place_count;  // place_count: beam_size, or twice that
  int64_t capacity;                // positions of a path: BOS and tokens

  MOLSPEC_ANYWHERE BeamAnswer& head(int64_t query) const {
    return *reinterpret_cast<BeamAnswer*>(data + query * stride);
  }
  MOLSPEC_ANYWHERE BeamPlace* beam(int64_t query) const {
    return reinterpret_cast<BeamPlace*>(data + query * stride + sizeof(BeamAnswer));
  }
  MOLSPEC_ANYWHERE BeamPlace* finished(int64_t query) const { return beam(query) + beam_size; }
  MOLSPEC_ANYWHERE int32_t* token_ids(int64_t query, int64_t rank) const {
    return reinterpret_cast<int32_t*>(beam(query) + place_count) + rank * capacity;
  }
  MOLSPEC_ANYWHERE bool finished_apart() const { return place_count > beam_size; }
  MOLSPEC_ANYWHERE int32_t max_length(int64_t query) const {
    const int32_t requested = head(query).max_length;
    return requested < capacity ? requested : static_cast<int32_t>(capacity) - 1;
  }
  // Tokens of one hypothesis that may be chosen, as in rules/beam.h.
  MOLSPEC_ANYWHERE int32_t candidate_count() const {
    return static_cast<int32_t>(beam_size) + (finished_apart() ? 1 : 0);
  }
};

// The links of a node are valid while it is the last of a live hypothesis or after it: only there
// are children looked up, and a node is freed with all of them.
struct BeamTrees {
  BeamNode* trees;      // [query, node_count]
  int32_t* used;        // [query, node_count / kBlockPositions], a bit for each node of a block
  int32_t* path_slots;  // [query, node_count, capacity]: the slots of a path, by position
  int32_t* plans;       // [query, plan_limit]: nodes of the next step
  int64_t node_count, capacity, plan_limit;

  MOLSPEC_ANYWHERE int64_t block_count() const { return node_count / kBlockPositions; }
  MOLSPEC_ANYWHERE BeamNode* tree(int64_t query) const { return trees + query * node_count; }
  MOLSPEC_ANYWHERE int32_t* blocks(int64_t query) const { return used + query * block_count(); }
  MOLSPEC_ANYWHERE int32_t* plan(int64_t query) const { return plans + query * plan_limit; }
  MOLSPEC_ANYWHERE int64_t slot(int64_t query, int64_t node) const {
    return query * node_count + node;
  }
  MOLSPEC_ANYWHERE int64_t path_begin(int64_t query, int64_t node) const {
    return slot(query, node) * capacity;
  }
};

// Shared by the operators of a round.
struct BeamRows {
  BeamAnswers answers;
  BeamTrees trees;

  // Nodes that must be free for a step of the lookahead: it adds up to beam_size of them, and so
  // does beam search at each of the lookahead_steps + 1 steps that pass all drafts. A tree has room
  // for the paths of all hypotheses beside these.
  MOLSPEC_ANYWHERE int32_t reserve(int64_t lookahead_steps) const {
    return static_cast<int32_t>(answers.beam_size * (lookahead_steps + 2));
  }
};

// The likeliest tokens after every node, from rank_tokens or guessed.
struct BestTokens {
  int32_t* ids;      // [query, node, count]
  float* log_probs;  // [query, node, count]
  int64_t count;     // BeamAnswers::candidate_count()
};

// stage_beams: the planned nodes of every query -> nodes of the next decoder_step, query by query.
// Gaps follow. If a query does not fit, it and those after it wait for a later round. A new query's
// tree begins with BOS, planned.
struct StageBeamsProblem {
  BeamRows rows;  // written: the counts of a step, first_node, a tree's first node
  Node* nodes;    // [node_count], written; path_begin is into rows.trees.path_slots
  int64_t node_count;
  int32_t bos_id;
};
void stage_beams(const StageBeamsProblem& problem, cudaStream_t stream);

// rank_tokens: log-probs after every node -> its likeliest tokens, best first, the lower id first
// among equals, as the row of the node's slot. NaN is skipped; a row that begins with NaN, or whose
// maximum is infinite, has no token, as on the host. Missing tokens have the id kNoToken.
struct RankTokensProblem {
  const Node* nodes;          // [node_count]; gaps are left out
  const int32_t* path_slots;  // that nodes point into: a path ends with its node's slot
  const float* log_probs;     // [node_count, vocab_size]
  int32_t* best_ids;          // [slot, count], written
  float* best_log_probs;      // [slot, count], written
  int64_t node_count, vocab_size;
  int64_t count;  // tokens a node
};
void rank_tokens(const RankTokensProblem& problem, cudaStream_t stream);

// replay_beams: the likeliest tokens after every node -> the beam, after as many steps of beam
// search as they allow (search/beam.h). Each step takes the best extensions and finished
// hypotheses, by score, then the rank of the hypothesis that they extend, then token id. Nodes that
// are neither before nor after a hypothesis are freed; last tokens that are not evaluated yet are
// planned. A query is done if no hypothesis is live or, if they finish apart, none could be better
// than the last of a full list.
struct ReplayBeamsProblem {
  BeamRows rows;  // written
  BestTokens best;
  const double* length_norms;  // [capacity]: scores are log_prob / length_norms[length]
  int32_t eos_id;
};
void replay_beams(const ReplayBeamsProblem& problem, cudaStream_t stream);

}  // namespace molspec::cuda
