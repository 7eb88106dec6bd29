// A draft model extends the paths of many queries by a few tokens, with a cache of its own.
//
// A call is request(), then rounds as in Batch (paths(), plan(), a decoder step, advance()) until
// advance() returns that all are done, then trees().

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "draft_models/cached_paths.h"
#include "search/ranking.h"

namespace molspec {

class Continuations : public CachedPaths {
 public:
  // drafts: the draft model's own drafter. width: the likeliest tokens that a tree has at each
  // position, the chosen one counted. Throws std::invalid_argument for counts below 1.
  Continuations(int32_t row_count, std::shared_ptr<const GuessModel> model,
                const DrafterOptions& drafts, int32_t width)
      : CachedPaths(row_count, std::move(model)),
        drafts_(drafts),
        width_(width),
        drafters_(rows_.size()) {
    require(width >= 1, "width", width, "at least 1");
  }

  void start(int32_t row, const std::vector<int32_t>& source_ids) {
    CachedPaths::start(row, source_ids);
    std::unique_ptr<Drafter>& drafter = drafters_[row];
    if (!drafter) drafter = make_drafter(drafts_, model_);
    if (drafter) drafter->start(source_ids);
  }

  std::vector<Path> paths() const {
    std::vector<Path> out;
    for (const PathState& state : states_) {
      const Sequence& sequence = state.sequence;
      if (sequence.live && !drafters_[state.row])
        out.push_back(
            {state.row, sequence.token_ids, sequence.log_prob, TokenTree::kNone, sequence.sampler});
    }
    return out;
  }
  void plan(const std::vector<AdmittedTree>& proposed) {
    std::vector<DraftTree*> waiting;
    for (PathState& state : states_)
      if (state.sequence.live && !drafters_[state.row]) waiting.push_back(&state.sequence.drafts);
    fill(waiting, proposed, model_->roles());
    tree_.clear_staged();
    for (PathState& state : states_) {
      Sequence& sequence = state.sequence;
      if (!sequence.live) continue;
      if (Drafter* drafter = drafters_[state.row].get())
        drafter->propose(sequence.token_ids, sequence.drafts);
      stage(state, sequence.drafts);
    }
  }
  // Reads log_probs [staged node, vocab_size]. Returns whether all are done. A tree is a chain with
  // other likely tokens beside it.
  // Throws std::invalid_argument if nothing is staged.
  bool advance(const float* log_probs, int32_t vocab_size) {
    check_staged();
    const StepLogProbs rows{tree_, log_probs, vocab_size};
    bool done = true;
    for (size_t i = 0; i < states_.size(); ++i) {
      PathState& state = states_[i];
      if (!state.sequence.live) continue;
      verify(state.sequence, rows, {model_->roles().special().eos, state.count});
      if (state.sequence.live) state.sequence.grow(query(state).nodes);
      note(state, trees_[i], rows);
      done &= !state.sequence.live;
    }
    finish_round(done);
    return done;
  }

 private:
  // Adds the tokens of this round to the tree.
  void note(PathState& state, DraftTree& tree, const StepLogProbs& log_probs) {
    const int32_t eos = model_->roles().special().eos;
    const Sequence& sequence = state.sequence;
    const size_t emitted = sequence.accepted.size() - static_cast<size_t>(sequence.finished);
    size_t at = sequence.token_ids.size() - emitted;
    for (const int32_t node : sequence.accepted) {
      const float* row = log_probs.after(node);
      const int32_t parent = state.last;
      const float before = tree.log_prob(parent);
      const int32_t chosen = at < sequence.token_ids.size() ? sequence.token_ids[at++] : eos;
      const auto add = [&](int32_t token_id) {
        return tree.add(token_id, parent, before + std::min(row[token_id], 0.0F));
      };
      if (chosen != eos) state.last = add(chosen);
      if (width_ == 1 || !tree.drawn_from.empty()) continue;
      best_tokens(row, log_probs.vocab_size, width_, likeliest_);
      for (const Candidate& other : likeliest_)
        if (other.token_id != chosen && other.token_id != eos) add(other.token_id);
    }
  }

  DrafterOptions drafts_;
  int32_t width_;
  std::vector<std::unique_ptr<Drafter>> drafters_;  // by row; null if an external drafter drafts
  std::vector<Candidate> likeliest_;                // scratch
};

}  // namespace molspec
