#include "search/continuations.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "search/rejection.h"

namespace molspec {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw std::invalid_argument(text); }

}  // namespace

Continuations::Continuations(int32_t row_count, std::shared_ptr<const GuessModel> model,
                             const DrafterOptions& drafts, int32_t width)
    : model_(std::move(model)), drafts_(drafts), width_(width), tree_(std::max(row_count, 0)) {
  if (row_count < 1) refuse("row_count is " + std::to_string(row_count) + ": expected at least 1");
  if (width < 1) refuse("width is " + std::to_string(width) + ": expected at least 1");
  check(drafts);
  rows_.resize(static_cast<size_t>(row_count));
}

void Continuations::start(int32_t row, const std::vector<int32_t>& source_ids) {
  if (row < 0 || static_cast<size_t>(row) >= rows_.size() || rows_[static_cast<size_t>(row)].live)
    refuse("row " + std::to_string(row) + " is taken or none");
  Query& query = rows_[static_cast<size_t>(row)];
  const auto length = static_cast<int>(source_ids.size());
  model_->roles().check_tokens(source_ids.data(), length);
  if (!query.nodes) {
    query.nodes = std::make_unique<Lanes>(Row{row, &tree_, nullptr, model_});
    query.drafter = make_drafter(drafts_, model_);
  }
  if (query.drafter) query.drafter->start(source_ids.data(), length);
  query.root = TokenTree::kNone;
  query.live = true;
}

void Continuations::release(int32_t row) {
  live_row(row).live = false;
  tree_.clear(row);
}

Continuations::Query& Continuations::live_row(int32_t row) {
  if (row < 0 || static_cast<size_t>(row) >= rows_.size() || !rows_[static_cast<size_t>(row)].live)
    refuse("row " + std::to_string(row) + " is free or none");
  return rows_[static_cast<size_t>(row)];
}

void Continuations::ask(const std::vector<Path>& paths, const std::vector<int32_t>& counts) {
  if (paths.size() != counts.size())
    refuse("counts has " + std::to_string(counts.size()) + " items: expected one a path");
  tree_.clear_staged();
  asked_.clear();
  trees_.assign(paths.size(), {});
  std::vector<std::vector<int32_t>> kept(rows_.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    Query& query = live_row(paths[i].row);
    const std::vector<int32_t>& token_ids = paths[i].token_ids;
    model_->roles().check_tokens(token_ids.data(), static_cast<int>(token_ids.size()));
    Asked asked;
    asked.row = paths[i].row;
    asked.count = counts[i];
    asked.begin = token_ids.size();
    asked.sampler = paths[i].sampler;
    asked.lane.live = counts[i] > 0;
    asked.lane.token_ids = token_ids;
    asked.lane.node = known(query, token_ids);
    if (asked.lane.node != TokenTree::kNone)
      kept[static_cast<size_t>(asked.row)].push_back(asked.lane.node);
    asked_.push_back(std::move(asked));
  }
  for (size_t row = 0; row < rows_.size(); ++row)
    if (!kept[row].empty()) rows_[row].nodes->keep(kept[row]);
  for (Asked& asked : asked_) {
    Query& query = rows_[static_cast<size_t>(asked.row)];
    if (asked.lane.live) add_rest(query, asked, asked.lane.node);
  }
}

int32_t Continuations::known(const Query& query, const std::vector<int32_t>& token_ids) const {
  int32_t node = query.root;
  if (node == TokenTree::kNone) return node;
  for (const int32_t token_id : token_ids) {
    const int32_t child = tree_.child(node, token_id);
    if (child == TokenTree::kNone) break;
    node = child;
  }
  return node;
}

void Continuations::add_rest(Query& query, Asked& asked, int32_t node) {
  if (node == TokenTree::kNone) {
    if (query.root == TokenTree::kNone) query.root = query.nodes->begin();
    node = query.root;
    asked.pending.push_back(node);
  }
  const auto& token_ids = asked.lane.token_ids;
  for (auto at = static_cast<size_t>(tree_.position(node)); at < token_ids.size(); ++at) {
    node = query.nodes->child_or_new(node, token_ids[at]);
    asked.pending.push_back(node);
  }
  asked.lane.node = node;
}

std::vector<Path> Continuations::paths() const {
  std::vector<Path> out;
  for (const Asked& asked : asked_) {
    if (!asked.lane.live || rows_[static_cast<size_t>(asked.row)].drafter) continue;
    out.push_back(
        {asked.row, asked.lane.token_ids, asked.lane.log_prob, tree_.parent(asked.lane.node)});
    if (asked.sampler) out.back().sampler = asked.sampler->of_drafter();
  }
  return out;
}

void Continuations::plan(const std::vector<DraftTree>& proposed) {
  const std::vector<Path> waiting = paths();
  if (proposed.size() != waiting.size())
    refuse("proposed has " + std::to_string(proposed.size()) + " trees: expected " +
           std::to_string(waiting.size()) + ", one a path");
  tree_.clear_staged();
  for (Query& query : rows_)
    if (query.live && query.nodes) query.nodes->unstage();
  for (Asked& asked : asked_) {
    if (!asked.lane.live) continue;
    Lanes& nodes = *rows_[static_cast<size_t>(asked.row)].nodes;
    for (const int32_t node : asked.pending) nodes.stage(node);
    asked.pending.clear();
    nodes.stage(asked.lane.node);
  }
  size_t next = 0;
  for (Asked& asked : asked_) {
    if (!asked.lane.live) continue;
    Query& query = rows_[static_cast<size_t>(asked.row)];
    const auto& token_ids = asked.lane.token_ids;
    if (query.drafter) {
      query.drafter->propose(token_ids.data(), static_cast<int>(token_ids.size()), asked.drafts);
    } else {
      asked.drafts = admitted(proposed[next++], model_->roles());
    }
    const auto end = static_cast<int32_t>(asked.begin) + asked.count;
    query.nodes->stage(asked.lane.node, asked.drafts, end);
  }
  for (Query& query : rows_) {
    if (!query.live || !query.nodes) continue;
    query.begin = static_cast<int32_t>(tree_.staged().size());
    query.nodes->submit();
  }
}

bool Continuations::advance(const float* log_probs, int32_t vocab_size) {
  bool done = true;
  for (size_t i = 0; i < asked_.size(); ++i) {
    Asked& asked = asked_[i];
    if (!asked.lane.live) continue;
    const Query& query = rows_[static_cast<size_t>(asked.row)];
    const float* rows = log_probs + int64_t{query.begin} * vocab_size;
    std::optional<Rejection> rejection;
    if (asked.sampler && asked.sampler->rejects())
      rejection.emplace(*asked.sampler, asked.drafts, &model_->roles().special());
    const auto choose = [&](const Lane& lane, const float* row) {
      const auto position = static_cast<uint32_t>(lane.token_ids.size());
      if (rejection) {
        const Drawn drawn = rejection->at(row, vocab_size, position);
        if (drawn.log_prob == drawn.log_prob)
          trees_[i].drawn_from.insert(trees_[i].drawn_from.end(), rejection->drawn_from().begin(),
                                      rejection->drawn_from().end());
        return drawn;
      }
      if (asked.sampler) return asked.sampler->at(row, vocab_size, position);
      const float* best = std::max_element(row, row + vocab_size);
      return Drawn{static_cast<int32_t>(best - row), *best};
    };
    query.nodes->advance(asked.lane, rows, vocab_size, asked.count, choose);
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
