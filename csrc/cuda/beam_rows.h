// Beam search that stays on a device: what is kept of every query, a row each. It is the search of
// search/beam.h, cut into the operators of a round:
//
//   look_ahead    drafts what the beam may need next   (or none: standard beam search)
//   stage_beams   the last token of every live hypothesis, and the drafts, as nodes of the next
//                 decoder_step
//   decoder_step
//   rank_tokens   the likeliest tokens after every node
//   replay_beams  standard beam search, for as many steps as distributions are known
//
// or that of search/speculative_beam.cpp, with plan_windows in place of look_ahead and
// select_leaves of replay_beams.
//
// The host begins a row by writing its answer's head and its first place, and looks at the answers
// once in a while.
//
// All that is known of a query is a *tree* of nodes. Node i of a query has slot i of those that the
// query owns in the cache, row i of its paths, of its likeliest tokens and of its guess states. A
// node lies in its parent's block while there is room, so a path touches few blocks.

#pragma once

#include <cuda_runtime.h>

#include "common/answers.h"
#include "common/limits.h"
#include "cuda/rounds.h"

namespace molspec::cuda {

// Places by rank: those of the beam, then, where hypotheses finish apart, as many for the best of
// them. Then, once the query is done, the token ids of either list by rank.
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
  // Tokens of a hypothesis that may be chosen: beam_size, and EOS beside them where it needs no
  // place.
  MOLSPEC_ANYWHERE int32_t candidate_count() const {
    return static_cast<int32_t>(beam_size) + (finished_apart() ? 1 : 0);
  }
};

// The links of a node are good while it stands at the end of a live hypothesis or after one: there
// its children are looked for, and there it goes with all of them.
struct BeamTrees {
  BeamNode* trees;      // [query, node_count]
  int32_t* used;        // [query, node_count / kBlockPositions], a bit for each node of a block
  int32_t* path_slots;  // [query, node_count, capacity]: the slots of a path, by position
  int32_t* plans;       // [query, plan_limit]: nodes that wait for the next step, kNone: a gap
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

// What the operators of a round share.
struct BeamRows {
  BeamAnswers answers;
  BeamTrees trees;

  // Nodes that looking ahead must find free at a step: it adds up to beam_size of them, and so does
  // beam search at each of the lookahead_steps + 1 steps that it takes to pass all that is drafted.
  // What then is left is paths, for which a tree has room beside these.
  MOLSPEC_ANYWHERE int32_t reserve(int64_t lookahead_steps) const {
    return static_cast<int32_t>(answers.beam_size * (lookahead_steps + 2));
  }
};

// The likeliest tokens after every node, of rank_tokens or of a guess.
struct BestTokens {
  int32_t* ids;      // [query, node, count]
  float* log_probs;  // [query, node, count]
  int64_t count;     // BeamAnswers::candidate_count()
};

// look_ahead: the recurrence of beam search on what is known, and on guesses where it is not, for
// up to lookahead_steps steps -> what would be live there is planned, as search/beam.h says. Every
// node that it comes by has a guess state.
struct LookAheadProblem {
  BeamRows rows;               // written: trees and plans
  BestTokens best;             // written: guesses of nodes that are not evaluated
  GuessTensors guess;          // written: states
  const double* length_norms;  // [capacity]
  int32_t lookahead_steps, node_budget;
  float min_confidence;
  int32_t bos_id, eos_id;
};
void look_ahead(const LookAheadProblem& problem, cudaStream_t stream);

// stage_beams: the planned nodes of every query -> nodes of the next decoder_step, query by query.
// What follows is gaps. A query that finds no room, and those after it, wait for a later round.
// The tree of a query that begins is made: BOS, planned.
struct StageBeamsProblem {
  BeamRows rows;  // written: what is counted of a step, first_node, a tree's first node
  Node* nodes;    // [node_count], written; path_begin is into rows.trees.path_slots
  int64_t node_count;
  int32_t bos_id;
};
void stage_beams(const StageBeamsProblem& problem, cudaStream_t stream);

// rank_tokens: log-probs after every node -> its likeliest tokens, best first, the lower id first
// among equals, as the row of the node's slot. NaN is passed over; a row that begins with it, or
// whose greatest is infinite, has no token, as the host's searches find it. Where tokens run out
// the id is kNoToken.
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

// replay_beams: the likeliest tokens after every node -> the beam, as many steps of beam search
// further as they are known for, as search/beam.h says. Each step takes the best of the extensions
// and of what had finished, by score, then the rank of the hypothesis that they extend, then token
// id. Nodes that no hypothesis has before it or after it are given back; the last tokens that are
// not evaluated yet are planned. A query is done where no hypothesis goes on, or, where they finish
// apart, none could be better than the last of a full list.
struct ReplayBeamsProblem {
  BeamRows rows;  // written
  BestTokens best;
  const double* length_norms;  // [capacity]: scores are log_prob / length_norms[length]
  int32_t eos_id;
};
void replay_beams(const ReplayBeamsProblem& problem, cudaStream_t stream);

// plan_windows: after the last token of every hypothesis that goes on, the tree that the windows
// of its query make there -> planned nodes: first the last tokens by rank, then all drafts, tree by
// tree. A draft that is as long as a hypothesis may be is none: its place in the plan is a gap.
struct PlanWindowsProblem {
  BeamRows rows;  // written: trees and plans
  WindowRows windows;
  int64_t draft_limit;  // nodes of a tree
  int32_t bos_id;
};
void plan_windows(const PlanWindowsProblem& problem, cudaStream_t stream);

// select_leaves: the likeliest tokens after every node of plan_windows -> the next beam, as
// search/speculative_beam.cpp says. A draft token is accepted if it is among the beam_size
// likeliest, the tokens likelier than it have less probability than `nucleus` and the model has
// numbers for what follows it; of each hypothesis the draft with most accepted tokens is kept, the
// first of equals. Its leaves are the likeliest tokens at each accepted position but the draft's
// own, and all of them after the last one. The best leaves of all hypotheses are the next beam.
struct SelectLeavesProblem {
  BeamRows rows;  // written
  BestTokens best;
  const double* length_norms;  // [capacity]: scores are log_prob / length_norms[length]
  float nucleus;
  int32_t eos_id;
};
void select_leaves(const SelectLeavesProblem& problem, cudaStream_t stream);

}  // namespace molspec::cuda
