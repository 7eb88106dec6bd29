#include "search/continuations.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace molspec {

Continuations::Continuations(int32_t row_count, std::shared_ptr<const GuessModel> model,
                             const DrafterOptions& drafts, int32_t width)
    : CachedPaths(row_count, std::move(model)),
      drafts_(drafts),
      width_(width),
      drafters_(rows_.size()) {
  if (width < 1)
    throw std::invalid_argument("width is " + std::to_string(width) + ": expected at least 1");
  check(drafts);
}

void Continuations::start(int32_t row, const std::vector<int32_t>& source_ids) {
  CachedPaths::start(row, source_ids);
  std::unique_ptr<Drafter>& drafter = drafters_[static_cast<size_t>(row)];
  if (!drafter) drafter = make_drafter(drafts_, model_);
  if (drafter) drafter->start(source_ids.data(), static_cast<int>(source_ids.size()));
}

std::vector<Path> Continuations::paths() const {
  std::vector<Path> out;
  for (const Asked& asked : asked_) {
    if (!asked.lane.live || drafters_[static_cast<size_t>(asked.row)]) continue;
    out.push_back(
        {asked.row, asked.lane.token_ids, asked.lane.log_prob, tree_.parent(asked.lane.node)});
    if (asked.sampler) out.back().sampler = asked.sampler->of_drafter();
  }
  return out;
}

void Continuations::plan(const std::vector<DraftTree>& proposed) {
  const std::vector<Path> waiting = paths();
  if (proposed.size() != waiting.size())
    throw std::invalid_argument("proposed has " + std::to_string(proposed.size()) +
                                " trees: expected " + std::to_string(waiting.size()) +
                                ", one a path");
  stage();
  size_t next = 0;
  for (Asked& asked : asked_) {
    if (!asked.lane.live) continue;
    const auto& token_ids = asked.lane.token_ids;
    if (Drafter* drafter = drafters_[static_cast<size_t>(asked.row)].get()) {
      drafter->propose(token_ids.data(), static_cast<int>(token_ids.size()), asked.drafts);
    } else {
      asked.drafts = admitted(proposed[next++], model_->roles());
    }
    const auto end = static_cast<int32_t>(asked.begin) + asked.count;
    query(asked).nodes->stage(asked.lane.node, asked.drafts, end);
  }
  submit();
}

bool Continuations::advance(const float* log_probs, int32_t vocab_size) {
  bool done = true;
  for (size_t i = 0; i < asked_.size(); ++i) {
    Asked& asked = asked_[i];
    if (!asked.lane.live) continue;
    const float* rows = log_probs + int64_t{query(asked).begin} * vocab_size;
    Chooser chooser(asked, model_->roles().special(), trees_[i]);
    const auto choose = [&](const Lane& lane, const float* row) {
      return chooser(row, vocab_size, static_cast<uint32_t>(lane.token_ids.size()));
    };
    query(asked).nodes->advance(asked.lane, rows, vocab_size, asked.count, choose);
    note(asked, trees_[i], rows, vocab_size);
    done &= !asked.lane.live;
  }
  return done;
}

// What a round has added to a lane.
void Continuations::note(Asked& asked, DraftTree& tree, const float* log_probs,
                         int32_t vocab_size) {
  const int32_t eos = model_->roles().special().eos;
  const Lane& lane = asked.lane;
  size_t at = lane.token_ids.size() - (lane.rows.size() - static_cast<size_t>(lane.finished));
  for (const int32_t index : lane.rows) {
    const float* row = log_probs + int64_t{index} * vocab_size;
    const int32_t parent = asked.last;
    const float before = tree.log_prob(parent);
    const int32_t chosen = at < lane.token_ids.size() ? lane.token_ids[at++] : eos;
    const auto add = [&](int32_t token_id) {
      return tree.add(token_id, parent, before + std::min(row[token_id], 0.0F));
    };
    if (chosen != eos) asked.last = add(chosen);
    if (width_ == 1 || !tree.drawn_from.empty()) continue;
    best_tokens(row, vocab_size, width_, likeliest_);
    for (const Candidate& other : likeliest_)
      if (other.token != chosen && other.token != eos) add(other.token);
  }
}

}  // namespace molspec
