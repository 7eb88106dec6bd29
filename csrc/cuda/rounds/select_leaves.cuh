// select_leaves on the GPU: a block a query. Every accepted position of a hypothesis has a list of
// leaves, best first; a leaf's place is the number of leaves before it.

#pragma once

#include "cuda/rounds/beam_rows.h"
#include "cuda/rounds/beam_tree.cuh"
#include "cuda/rounds/choose_beams.cuh"
#include "rules/nucleus.h"

namespace molspec::cuda {

constexpr int kLeafThreads = 256;
constexpr int kMostLeafLists = kMostDraftDepth + 1;  // of a hypothesis

// The common data of the leaves at one accepted position, or a hypothesis that has ended.
struct LeafList {
  double log_prob;  // of the path up to there
  int32_t node;     // whose likeliest tokens are the leaves
  int32_t draft;    // the accepted token, which is not a leaf, or kNoToken
  int32_t length;   // of a leaf
  int32_t count;    // likeliest tokens; 1 if the hypothesis is carried, 0 if there is no list
  double top;       // score of the likeliest
};

// The `best` of rules/nucleus.h: the likeliest tokens after a node.
struct NodeTokens {
  const BestTokens& best;
  const int64_t begin;

  // After the last of them comes kNoToken, which no draft has, with probability 0.
  __device__ int32_t count() const { return static_cast<int32_t>(best.count); }
  __device__ int32_t token(int32_t i) const { return best.ids[begin + i]; }
  __device__ float log_prob(int32_t i) const { return best.log_probs[begin + i]; }
};

struct LeafShared {
  BeamEntry beam[kWidestBeam], next[kWidestBeam];
  PlannedWindows planned;
  int32_t longest[kWidestBeam];  // by rank: the accepted tokens of the best draft, and its number
  LeafList lists[kWidestBeam * kMostLeafLists];
  Leaf chosen[kWidestBeam];  // best first
  int32_t chosen_count, emitted, accepted, used_count, numbers, continues;
  BlockMask masks[kMostBeamBlocks];
};

// The selection of one query, by a block of threads. They stride over the items that the last word
// of each function's comment names.
struct LeafSelector {
  const SelectLeavesProblem& problem;
  const int query;
  const int32_t count;  // hypotheses
  const BeamTree tree;
  LeafShared& shared;

  __device__ int32_t beam_size() const {
    return static_cast<int32_t>(problem.rows.answers.beam_size);
  }
  __device__ int32_t max_length() const { return problem.rows.answers.max_length(query); }
  __device__ bool continues(const BeamEntry& entry) const { return entry.continues(max_length()); }
  __device__ int64_t best_of(int32_t node) const {
    return problem.rows.trees.slot(query, node) * problem.best.count;
  }
  __device__ int32_t planned(int32_t i) const { return problem.rows.trees.plan(query)[i]; }

  // Whether the model's log-probs after the last tokens are numbers. Ranks.
  __device__ void check_numbers() const {
    for (int32_t rank = threadIdx.x; rank < count; rank += blockDim.x) {
      const BeamEntry& entry = shared.beam[rank];
      if (continues(entry) && !isfinite(problem.best.log_probs[best_of(entry.node)]))
        atomicMin(&shared.numbers, 0);
      shared.longest[rank] = 0;
    }
  }

  // Marks drafts that are accepted if their parents are, except those after which the model's
  // log-probs are not numbers: no leaf's score may be NaN. Drafts.
  __device__ void accept() const {
    const int32_t begin = shared.planned.open_before[count];
    for (int32_t i = threadIdx.x; i < shared.planned.drafts_before[count]; i += blockDim.x) {
      const int32_t index = planned(begin + i);
      if (index == BeamNode::kNone) continue;
      BeamNode& node = tree.node(index);
      if (isfinite(problem.best.log_probs[best_of(index)]) &&
          is_accepted(node.token_id, tree.on_path(index, node.position - 1)))
        node.known |= BeamNode::kAccepted;
    }
  }

  __device__ bool is_accepted(int32_t token_id, int32_t parent) const {
    return accept_nucleus(token_id, NodeTokens{problem.best, best_of(parent)}, problem.nucleus);
  }

  // The draft with most accepted tokens, the first among equals, has the greatest of these numbers.
  __device__ static int32_t length_and_number(int32_t length, int32_t number) {
    return length << 16 | (0xFFFF - number);
  }

  // Drafts.
  __device__ void find_longest() const {
    const int32_t begin = shared.planned.open_before[count];
    int32_t rank = 0;
    for (int32_t i = threadIdx.x; i < shared.planned.drafts_before[count]; i += blockDim.x) {
      while (shared.planned.drafts_before[rank + 1] <= i) ++rank;
      const int32_t index = planned(begin + i);
      if (index == BeamNode::kNone) continue;
      const int32_t last = tree.node(shared.beam[rank].node).position;
      const int32_t position = tree.node(index).position;
      bool accepted = position - last <= kMostDraftDepth;
      for (int32_t at = position; at > last && accepted; --at)
        accepted = (tree.node(tree.on_path(index, at)).known & BeamNode::kAccepted) != 0;
      if (accepted)
        atomicMax(&shared.longest[rank],
                  length_and_number(position - last, i - shared.planned.drafts_before[rank]));
    }
  }

  // Ranks.
  __device__ void list_leaves() const {
    for (int32_t rank = threadIdx.x; rank < count; rank += blockDim.x) {
      const BeamEntry& entry = shared.beam[rank];
      LeafList* lists = shared.lists + rank * kMostLeafLists;
      for (int32_t i = 0; i < kMostLeafLists; ++i) lists[i].count = 0;
      if (!continues(entry)) {
        lists[0] = {entry.log_prob, entry.node, kNoToken, entry.length, 1, 0.0};
        lists[0].top = leaf(rank * kMostLeafLists, 0).score;
        continue;
      }
      const int32_t longest = shared.longest[rank], accepted = longest >> 16;
      const int32_t number = shared.planned.drafts_before[rank] + (0xFFFF - (longest & 0xFFFF));
      const int32_t end =
          accepted ? planned(shared.planned.open_before[count] + number) : entry.node;
      double log_prob = entry.log_prob;
      for (int32_t i = 0; i <= accepted; ++i) {
        const int32_t node = tree.on_path(end, tree.node(entry.node).position + i);
        const int32_t draft =
            i < accepted ? tree.node(tree.on_path(end, tree.node(node).position + 1)).token_id
                         : kNoToken;
        lists[i] = {log_prob,
                    node,
                    draft,
                    entry.length + i + 1,
                    token_count(problem.best, problem.rows.trees.slot(query, node)),
                    0.0};
        lists[i].top = leaf(rank * kMostLeafLists + i, 0).score;
        if (i < accepted) log_prob += static_cast<double>(log_prob_of(node, draft));
      }
      atomicAdd(&shared.accepted, accepted);
      atomicAdd(&shared.emitted, accepted + 1);
    }
  }

  __device__ float log_prob_of(int32_t node, int32_t token_id) const {
    int64_t at = best_of(node);
    while (problem.best.ids[at] != token_id) ++at;
    return problem.best.log_probs[at];
  }

  __device__ double score(double log_prob, int32_t length) const {
    return log_prob / problem.length_norms[length];
  }

  // Leaf i of a list.
  __device__ Leaf leaf(int32_t list, int32_t i) const {
    const LeafList& from = shared.lists[list];
    const int32_t rank = list / kMostLeafLists;
    if (!continues(shared.beam[rank]))
      return {{score(from.log_prob, from.length), rank, Leaf::kCarried},
              from.log_prob,
              from.node,
              from.length};
    const int64_t at = best_of(from.node) + i;
    const double log_prob = from.log_prob + static_cast<double>(problem.best.log_probs[at]);
    return {{score(log_prob, from.length), rank, problem.best.ids[at]},
            log_prob,
            from.node,
            from.length};
  }
  __device__ bool is_leaf(int32_t list, int32_t i) const {
    const LeafList& from = shared.lists[list];
    return i < from.count &&
           (from.draft == kNoToken || problem.best.ids[best_of(from.node) + i] != from.draft);
  }

  // The number of leaves before one; exact up to the beam's size. The scores of a list fall.
  __device__ int32_t place_of(const Leaf& mine) const {
    int32_t place = 0;
    for (int32_t list = 0; list < count * kMostLeafLists && place < beam_size(); ++list) {
      const LeafList& from = shared.lists[list];
      if (from.count == 0 || from.top < mine.score) continue;
      for (int32_t i = 0; i < from.count; ++i) {
        if (!is_leaf(list, i)) continue;
        const Leaf other = leaf(list, i);
        if (other.score < mine.score) break;
        place += other.before(mine);
      }
    }
    return place;
  }

  // Leaves of all lists.
  __device__ void choose() const {
    const auto width = static_cast<int32_t>(problem.best.count);
    for (int32_t c = threadIdx.x; c < count * kMostLeafLists * width; c += blockDim.x) {
      if (!is_leaf(c / width, c % width)) continue;
      const Leaf mine = leaf(c / width, c % width);
      const int32_t place = place_of(mine);
      if (place >= beam_size()) continue;
      shared.chosen[place] = mine;
      atomicAdd(&shared.chosen_count, 1);
    }
  }

  // Chosen leaves.
  __device__ void extend() const {
    for (int32_t i = threadIdx.x; i < shared.chosen_count; i += blockDim.x) {
      const Leaf& leaf = shared.chosen[i];
      BeamEntry entry = shared.beam[leaf.parent_rank];
      if (leaf.token_id != Leaf::kCarried) {
        const bool eos = leaf.token_id == problem.eos_id;  // nothing follows EOS: it needs no node
        entry = {leaf.log_prob,  leaf.node, leaf.length, eos, 1.0f, eos ? kNoToken : leaf.token_id,
                 BeamNode::kNone};
      }
      shared.next[i] = entry;
      if (continues(entry)) atomicMax(&shared.continues, 1);
    }
  }

  __device__ void close(BeamAnswer& answer) const {
    const auto entry = [&](int32_t i) -> BeamEntry& { return shared.next[i]; };
    const BeamAnswers& answers = problem.rows.answers;
    const bool live = shared.continues;
    tree.settle(shared.chosen_count, entry, shared.used_count);
    if (live) {
      // No node has this length, so only the nodes before a hypothesis stay.
      const auto length = static_cast<int32_t>(problem.rows.trees.capacity) - 1;
      tree.collect(shared.chosen_count, entry, length, shared.used_count);
      tree.write_masks();
    } else {
      write_token_ids(answers, tree, shared.next, shared.chosen_count);
    }
    write_places(shared.next, shared.chosen_count, answers.beam(query));
    if (threadIdx.x != 0) return;
    answer.state = live ? BeamAnswer::kLive : BeamAnswer::kDone;
    answer.count = shared.chosen_count;
    answer.accepted_tokens += shared.accepted;
    answer.emitted_tokens += shared.emitted;
    answer.used_count = shared.used_count;
    answer.looked_from = BeamAnswer::kNowhere;
  }
};

inline __global__ void select_leaves_kernel(SelectLeavesProblem problem) {
  await_previous();
  __shared__ LeafShared shared;
  const int query = blockIdx.x;
  const BeamRows& rows = problem.rows;
  BeamAnswer& answer = rows.answers.head(query);
  if (answer.state != BeamAnswer::kLive || answer.first_node == BeamAnswer::kNotStaged) return;
  const LeafSelector selector{
      problem, query, answer.count, {rows.trees, query, shared.masks}, shared};
  read_places(rows.answers.beam(query), answer.count, shared.beam);
  selector.tree.read_masks();
  if (threadIdx.x == 0) {
    shared.numbers = 1;
    shared.chosen_count = shared.emitted = shared.accepted = shared.continues = 0;
    shared.used_count = answer.used_count;
  }
  __syncthreads();
  if (threadIdx.x == 0)
    shared.planned.find(shared.beam, rows.answers.beam(query), answer.count, selector.max_length());
  selector.check_numbers();
  __syncthreads();
  if (!shared.numbers) {
    if (threadIdx.x == 0) answer.state = BeamAnswer::kNoNumbers;
    return;
  }
  selector.accept();
  __syncthreads();
  selector.find_longest();
  __syncthreads();
  selector.list_leaves();
  __syncthreads();
  selector.choose();
  __syncthreads();
  selector.extend();
  __syncthreads();
  selector.close(answer);
}

}  // namespace molspec::cuda
