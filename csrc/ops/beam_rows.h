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

#include <array>
#include <string>
#include <vector>

#include "common/answers.h"
#include "common/block.h"
#include "common/limits.h"
#include "ops/check.h"

namespace molspec {

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

// Tensors of one concept, as operators take them.
using Tensors = std::vector<Tensor>;
inline constexpr std::array kBeamTensors = {"answers", "trees", "used_nodes", "path_slots",
                                            "plans"};
inline constexpr std::array kBestTensors = {"best_ids", "best_log_probs"};
inline constexpr std::array kGuessTensors = {"tables", "texts", "states"};

// Throws unless there are as many tensors as names.
template <size_t kCount>
void check_count(const Tensors& tensors, const char* name,
                 const std::array<const char*, kCount>& names) {
  if (tensors.size() == kCount) return;
  std::string expected;
  for (const char* each : names) expected += (expected.empty() ? "" : ", ") + std::string(each);
  check(false, name, " has ", tensors.size(), " tensors: expected ", expected);
}

// Types and shapes; what they hold is the device's own. `beams` are kBeamTensors, `best`
// kBestTensors.
BeamRows beam_rows_check(const Tensors& beams, int64_t beam_size);
BestTokens best_tokens_check(const Tensors& best, const BeamRows& rows);
const double* length_norms_check(const Tensor& length_norms, const BeamRows& rows);
// That a tree has room for the paths of all hypotheses and the reserve.
void check_room(const BeamRows& rows, int64_t lookahead_steps);

}  // namespace molspec
