// propose_tree on the GPU: a block a query.
//
// A tree grows best first, and a node is known only after its parent was expanded: a tree of 15
// nodes would need 15 expansions, each after the one before. So in a turn the warps expand several
// at once: the node that best first needs next, the nodes that follow if the target copies, and the
// likeliest others. Then one warp adds nodes to the tree in best-first order until it needs one
// that is not expanded yet. Superfluous expansions change no tree. After the last turn, nodes that
// are not expanded stay leaves.

#pragma once

#include "cuda/rounds/copy_run.cuh"
#include "cuda/rounds/greedy_rows.h"
#include "cuda/rounds/guess_tokens.cuh"

namespace molspec::cuda {

constexpr int kTreeThreads = kTreeWarps * kWarp;
// Warps that follow a copy, of a turn that is not the first.
constexpr int kCopyWarps = 7;
static_assert(kTreeWarps <= kWarp, "a copy's tokens, fewer than there are warps, take a lane each");
// Expansions, the root's counted.
constexpr int kMostExpansions = kMostTreeNodes + kTreeSpares;

// A candidate node: a token, and its log-prob after its parent.
struct DraftEntry {
  float log_prob;
  int32_t token;  // kNoToken: none
};

// A warp's job: expand the state of an expansion after a token, if it is set, and then after
// `copies` copied tokens.
struct DraftJob {
  static constexpr int32_t kNone = -1;

  int32_t expansion;  // the index of the result, or kNone
  int32_t before;     // the expansion that is one token shorter
  int32_t from, token, copies;
};

struct TreeShared {
  // The warps' scratch memory for guesses and the entries of all expansions, at most; tables take
  // the rest.
  static constexpr int kArena =
      kTreeWarps * sizeof(GuessShared) + kMostExpansions * kMostTreeNodes * sizeof(DraftEntry);

  alignas(16) uint8_t arena[kArena];
  GuessCursor cursors[kTreeWarps][2];
  DraftJob jobs[kTreeWarps];
  bool bends[kTreeWarps];  // whether copying continues elsewhere after the job's tokens
  // For every expansion: the one that it extends (kNone: it is free), by which token, and
  // its number of entries.
  int32_t parents[kMostExpansions], tokens[kMostExpansions], counts[kMostExpansions];
  int32_t grown;  // whether the tree is complete
};

// The expansion after another one and a token, or kNone. By a warp.
inline __device__ int32_t expanded(const TreeShared& shared, int32_t count, int32_t from,
                                   int32_t by) {
  for (int32_t begin = 0; begin < count; begin += kWarp) {
    const int32_t i = begin + lane_index();
    const bool is = i < count && shared.parents[i] == from && shared.tokens[i] == by;
    const unsigned found = __ballot_sync(~0U, is);
    if (found) return begin + __ffs(static_cast<int>(found)) - 1;
  }
  return DraftJob::kNone;
}

// The guesses of a block's warps, each with its own working state.
struct TreeGuesser {
  const ProposeTreeProblem& problem;
  const int query;
  const Guesser guesser;
  TreeShared& shared;
  DraftEntry* const entries;  // [expansion, budget], shared
  uint8_t* const scratch;     // the working state of this warp, without its cursor

  __device__ int32_t budget() const { return static_cast<int32_t>(problem.drafts.limit); }
  __device__ int32_t expansion_count() const { return budget() + kTreeSpares; }
  __device__ GuessStateView state(int32_t expansion) const {
    return guess_state_of(problem.guess.state(query, expansion), guesser.rules.text);
  }
  // The working state. It has two cursors: an advance reads one and writes the other.
  __device__ GuessStateView working(int turn) const {
    GuessStateView view = guess_state_of(scratch, guesser.rules.text);
    view.cursor = &shared.cursors[warp_index()][turn % 2];
    return view;
  }

  __device__ void copy(const GuessStateView& from, const GuessStateView& to) const {
    const GuessText& text = guesser.rules.text;
    guesser.team.copy(from.match_lengths, to.match_lengths, text.size);
    guesser.team.copy(from.copied, to.copied, text.source_length + 1);
    guesser.team.copy(reinterpret_cast<const uint8_t*>(from.cursor),
                      reinterpret_cast<uint8_t*>(to.cursor), sizeof(GuessCursor));
    guesser.team.sync();
  }

  // Makes state 0 the state after all emitted tokens. It begins with the deepest expansion of the
  // last tree that those tokens reached.
  __device__ void follow_answer(GuessTextRow::Head& head) const {
    const int32_t count = problem.answers.head(query).token_count;
    int32_t absorbed = head.absorbed, nearest = 0;
    guesser.team.sync();  // all have read the head
    GuessStateView at = state(0);
    if (absorbed == GuessTextRow::kFresh) {
      absorbed = 0;
      at = working(0);
      guesser.start(at);
    } else if (absorbed == count) {
      return;
    } else {
      recall();
      for (int32_t next; absorbed < count; ++absorbed, nearest = next) {
        next = expanded(shared, expansion_count(), nearest,
                        problem.answers.token_ids(query)[absorbed]);
        if (next == DraftJob::kNone) break;
      }
      at = state(nearest);
    }
    for (int turn = 1; absorbed < count; ++absorbed, ++turn) {
      guesser.advance(at, problem.answers.token_ids(query)[absorbed], working(turn));
      at = working(turn);
    }
    copy(at, state(0));
    if (guesser.team.leads()) head.absorbed = count;
  }

  // The expansion and token that a state extends, stored after its cursor.
  __device__ int2& lineage(int32_t expansion) const {
    return *reinterpret_cast<int2*>(problem.guess.state(query, expansion) + kGuessCursorBytes -
                                    sizeof(int2));
  }
  __device__ void recall() const {
    for (int32_t i = lane_index(); i < expansion_count(); i += kWarp) {
      const int2 from = lineage(i);
      shared.parents[i] = from.x;
      shared.tokens[i] = from.y;
    }
    guesser.team.sync();
  }
  // Stores the lineage of the expansions for the next round. By the warp that grew the tree.
  __device__ void remember() const {
    for (int32_t i = lane_index(); i < expansion_count(); i += kWarp)
      lineage(i) = {shared.parents[i], shared.tokens[i]};
  }

  __device__ void expand(const DraftJob& job) const {
    bool& bends = shared.bends[warp_index()];
    if (guesser.team.leads()) bends = false;
    if (job.expansion == DraftJob::kNone) return;
    GuessStateView at = state(job.from);
    int32_t token = job.token;
    if (token != SymbolTable::kNoToken) {
      guesser.advance(at, token, working(0));
      at = working(0);
    }
    if (job.copies > 0) {
      const CopyRun run{guesser.rules, guesser.team};
      token = run.follow(at, job.copies, working(1));
      if (token == SymbolTable::kNoToken) return;
      at = working(1);
      const bool is_bend = choose_copy(guesser.team, guesser.rules, at);
      if (guesser.team.leads()) bends = is_bend;
    }
    if (token != SymbolTable::kNoToken) copy(at, state(job.expansion));
    DraftEntry* to = entries + job.expansion * budget();
    const int32_t eos = guesser.rules.symbols.special.eos;
    const int32_t count = guesser.tokens(at, [&](int32_t likely, float log_prob, int32_t rank) {
      if (rank < budget()) to[rank] = {log_prob, likely == eos ? SymbolTable::kNoToken : likely};
    });
    if (!guesser.team.leads()) return;
    shared.parents[job.expansion] = job.before;
    shared.tokens[job.expansion] = token;
    shared.counts[job.expansion] = min(count, budget());
  }
};

// The warp that adds nodes: lane l has the root (l = 0) or node l - 1, and its next entry.
struct TreeGrower {
  const ProposeTreeProblem& problem;
  const int query;
  TreeShared& shared;
  DraftEntry* const entries;

  int32_t expansion = DraftJob::kNone, depth = 0, next = 0, token = 0;
  float base = 0, log_prob = 0;  // of the path up to here, and with the next entry
  uint32_t rank = 0;             // by log_prob; 0: no entry is left
  // Equal in all lanes.
  int32_t nodes = 0, open = 0;  // nodes of the tree; the lane whose expansion is needed
  uint64_t kept = 1;            // expansions of nodes
  int32_t newest = 0;           // expansion
  int32_t turns = 0;            // done so far
  int32_t room = 0;             // of a job of the next turn, by lane

  __device__ int32_t budget() const { return static_cast<int32_t>(problem.drafts.limit); }
  __device__ int32_t expansion_count() const { return budget() + kTreeSpares; }

  // An integer that grows with the log-prob, at least 1.
  static __device__ uint32_t rank_of(float log_prob) {
    const uint32_t bits = __float_as_uint(log_prob);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  }

  // Selects the next entry of this lane; among equally likely paths, the lowest token.
  __device__ void look() {
    rank = 0;
    if (expansion == DraftJob::kNone) return;
    DraftEntry* mine = entries + expansion * budget();
    const int32_t count = shared.counts[expansion];
    while (next < count && mine[next].token == SymbolTable::kNoToken) ++next;
    if (next >= count) return;
    const DraftEntry first = mine[next];
    log_prob = base + first.log_prob;
    int32_t best = next;
    for (int32_t i = next + 1; i < count && base + mine[i].log_prob == log_prob; ++i)
      if (mine[i].token != SymbolTable::kNoToken && mine[i].token < mine[best].token) best = i;
    token = mine[best].token;
    mine[next] = mine[best];
    if (best != next) mine[best] = first;
    if (log_prob >= problem.min_log_prob) rank = rank_of(log_prob);
  }

  // The lane whose entry is the likeliest, the earlier node among equals, or -1.
  static __device__ int best_lane(uint32_t rank) {
    const uint32_t best = __reduce_max_sync(~0U, rank);
    return best == 0 ? -1 : __ffs(static_cast<int>(__ballot_sync(~0U, rank == best))) - 1;
  }

  __device__ int32_t expanded(int32_t from, int32_t by) const {
    return cuda::expanded(shared, expansion_count(), from, by);
  }

  // Frees states for the next turn's expansions, one for each of the first kTreeWarps lanes: the
  // oldest ones that are not nodes. Nothing extends those any more.
  __device__ void take() {
    uint64_t taken = 0;
    for (int job = 0; job < kTreeWarps; ++job) {
      do newest = newest + 1 < expansion_count() ? newest + 1 : 0;
      while ((kept >> newest & 1) != 0);
      taken |= uint64_t{1} << newest;
      if (lane_index() == job) room = newest;
    }
    for (int32_t i = lane_index(); i < expansion_count(); i += kWarp) {
      const int32_t parent = shared.parents[i];
      const bool extends = parent >= 0 && (taken >> parent & 1) != 0;
      if (extends || (taken >> i & 1) != 0) shared.parents[i] = DraftJob::kNone;
    }
    __syncwarp();
  }

  // The jobs of the first turn: the root, and the tokens copied after it.
  __device__ void begin() {
    for (int32_t i = lane_index(); i < expansion_count(); i += kWarp) {
      shared.parents[i] = DraftJob::kNone;
      shared.tokens[i] = SymbolTable::kNoToken;
    }
    const int32_t job = lane_index();
    if (job < kTreeWarps)
      shared.jobs[job] = {job < budget() ? job : DraftJob::kNone, job - 1, 0, SymbolTable::kNoToken,
                          job};
    newest = kTreeWarps - 1;
    if (lane_index() != 0) return;
    expansion = 0;
    shared.grown = 0;
  }

  // Drops the jobs after a bend: their copied tokens do not follow each other.
  __device__ void straighten() {
    const int lane = lane_index();
    const bool is = lane < kTreeWarps;
    const int32_t copies = is ? shared.jobs[lane].copies : 0;
    const int32_t most = kMostTreeNodes;
    const auto bend = static_cast<int32_t>(
        __reduce_min_sync(~0U, static_cast<unsigned>(is && shared.bends[lane] ? copies : most)));
    if (copies > bend && shared.jobs[lane].expansion != DraftJob::kNone)
      shared.parents[shared.jobs[lane].expansion] = DraftJob::kNone;
    __syncwarp();
  }

  // Adds nodes. Returns whether the tree is complete; otherwise the next jobs are set.
  __device__ bool grow() {
    straighten();
    const bool may_request = ++turns < problem.max_turns;
    if (lane_index() == open) look();
    int32_t from, by, deep;
    float path;
    for (;;) {
      __syncwarp();
      const int parent = best_lane(rank);
      if (parent < 0) return true;
      from = __shfl_sync(~0U, expansion, parent);
      by = __shfl_sync(~0U, token, parent);
      deep = __shfl_sync(~0U, depth, parent) + 1;
      path = __shfl_sync(~0U, log_prob, parent);
      if (lane_index() == 0) {
        problem.drafts.token_ids(query)[nodes] = by;
        problem.drafts.parents(query)[nodes] = parent - 1;
      }
      if (++nodes == budget()) return true;
      const bool continues = deep < problem.max_depth;
      const int32_t after = continues ? expanded(from, by) : DraftJob::kNone;
      const bool needs = may_request && continues && after == DraftJob::kNone;
      if (after != DraftJob::kNone) kept |= uint64_t{1} << after;
      // The parent's next entry, and the node's own first one.
      if (lane_index() == parent) ++next;
      if (lane_index() == nodes) {
        expansion = after;
        depth = deep;
        base = path;
      }
      if (lane_index() == parent || lane_index() == nodes) look();
      if (needs) break;
    }
    open = nodes;
    take();
    const int32_t after = __shfl_sync(~0U, room, 0);
    kept |= uint64_t{1} << after;
    if (lane_index() == open) expansion = after;
    request(from, by);
    return false;
  }

  // The jobs of a turn: the needed expansion, the tokens copied after it, and the likeliest other
  // entries.
  __device__ void request(int32_t from, int32_t by) {
    const int lane = lane_index();
    const int32_t copies = min(kCopyWarps, budget() - nodes);
    const int32_t before = __shfl_sync(~0U, room, max(lane - 1, 0));
    DraftJob mine{DraftJob::kNone, from, from, by, 0};
    if (lane < copies) mine = {room, lane > 0 ? before : from, from, by, lane};
    uint32_t left = depth + 1 < problem.max_depth ? rank : 0;
    for (int job = copies; job < kTreeWarps; ++job) {
      const int likely = best_lane(left);
      if (likely < 0) break;
      const int32_t parent = __shfl_sync(~0U, expansion, likely);
      const int32_t next_token = __shfl_sync(~0U, token, likely);
      if (lane == likely) left = 0;
      const bool fresh = expanded(parent, next_token) == DraftJob::kNone;
      if (lane == job && fresh) mine = {room, parent, parent, next_token, 0};
    }
    if (lane < kTreeWarps) shared.jobs[lane] = mine;
  }
};

// A query whose row is inconsistent gets no drafts.
inline __global__ void __launch_bounds__(kTreeThreads, 2)
    propose_tree_kernel(ProposeTreeProblem problem) {
  await_previous();
  __shared__ TreeShared shared;
  const int query = blockIdx.x, warp = warp_index();
  if (problem.answers.head(query).state != GreedyAnswer::kLive) return;
  const GuessTensors& guess = problem.guess;
  auto& head = *reinterpret_cast<GuessTextRow::Head*>(guess.text(query));
  if (!Guesser::fits(guess.tables, guess.text(query), guess.text_stride, guess.state_stride)) {
    if (threadIdx.x == 0) problem.drafts.count(query) = 0;
    return;
  }
  const int64_t budget = problem.drafts.limit, expansions = budget + kTreeSpares;
  const int64_t own_size = round16(GuessShared::size(Guesser::alphabet(guess.tables)));
  const int64_t state_size = round16(guess_state_size(head.size, head.source_length));
  Stage stage{shared.arena, TreeShared::kArena};
  uint8_t* own = stage.take(kTreeWarps * own_size) + warp * own_size;
  auto* entries = reinterpret_cast<DraftEntry*>(
      stage.take(expansions * budget * static_cast<int64_t>(sizeof(DraftEntry))));
  uint8_t* states = stage.take(kTreeWarps * state_size);
  uint8_t* scratch = states ? states + warp * state_size : guess.state(query, expansions + warp);
  Guesser reader =
      Guesser::on(guess.tables, guess.text(query), *reinterpret_cast<GuessShared*>(own));
  reader.keep(stage);
  const TreeGuesser guesser{problem, query, reader, shared, entries, scratch};
  TreeGrower grower{problem, query, shared, entries};
  __syncthreads();
  if (warp == 0) {
    guesser.follow_answer(head);
    grower.begin();
  }
  for (;;) {
    __syncthreads();
    if (shared.grown) break;
    guesser.expand(shared.jobs[warp]);
    __syncthreads();
    if (warp != 0) continue;
    const bool grown = grower.grow();
    if (lane_index() == 0) shared.grown = grown;
  }
  if (warp == 0) guesser.remember();
  if (threadIdx.x == 0) problem.drafts.count(query) = grower.nodes;
}

}  // namespace molspec::cuda
