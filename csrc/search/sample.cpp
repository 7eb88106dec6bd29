#include "search/sample.h"

namespace molspec {

SampleSearch::SampleSearch(const SampleSpec& spec, Row row)
    : Search(std::move(row)),
      spec_(spec),
      drafter_(make_drafter(spec.drafter, row_.model)),
      nodes_(row_) {}

void SampleSearch::start(const std::vector<int32_t>& source_ids) {
  const auto length = static_cast<int>(source_ids.size());
  row_.model->roles().check_tokens(source_ids.data(), length);
  if (drafter_) drafter_->start(source_ids.data(), length);
  begin();
  Lane first;
  first.node = nodes_.begin();
  lanes_.assign(static_cast<size_t>(spec_.samples), first);
  samplers_.clear();
  for (int32_t i = 0; i < spec_.samples; ++i)
    samplers_.emplace_back(spec_.sampling, query_key_, static_cast<uint32_t>(i));
}

void SampleSearch::paths(std::vector<Path>& out) const {
  if (drafter_) return;
  for (size_t i = 0; i < lanes_.size(); ++i)
    if (lanes_[i].live)
      out.push_back({row_.index, lanes_[i].token_ids, lanes_[i].log_prob,
                     row_.tree->parent(lanes_[i].node), samplers_[i]});
}

void SampleSearch::plan(const DraftTree* proposed) {
  nodes_.unstage();
  for (const Lane& lane : lanes_)
    if (lane.live) nodes_.stage(lane.node);
  size_t drafted = 0;
  drafted_.clear();
  for (const Lane& lane : lanes_)
    if (lane.live) drafted += static_cast<size_t>(draft(lane, proposed));
  nodes_.submit();
  count_staged(nodes_.staged_count(), drafted);
}

// Each sample's drafts count, though they may be shared.
int32_t SampleSearch::draft(const Lane& lane, const DraftTree*& proposed) {
  if (!drafter_) return nodes_.stage(lane.node, *proposed++, spec_.max_length);
  const auto [found, is_new] = drafted_.emplace(lane.node, 0);
  if (is_new) {
    const auto& token_ids = lane.token_ids;
    drafter_->propose(token_ids.data(), static_cast<int>(token_ids.size()), drafts_);
    found->second = nodes_.stage(lane.node, drafts_, spec_.max_length);
  }
  return found->second;
}

bool SampleSearch::advance(const float* log_probs, int32_t vocab_size) {
  live_.clear();
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    if (!lane.live) continue;
    const auto choose = [&](const Lane& at, const float* row) {
      return samplers_[i].at(row, vocab_size, static_cast<uint32_t>(at.token_ids.size()));
    };
    if (nodes_.advance(lane, log_probs, vocab_size, spec_.max_length, choose) ==
        Verdict::kNoNumbers) {
      decoded_.error = kNoNumbers;
      return true;
    }
    if (lane.live) live_.push_back(lane.node);
  }
  if (live_.empty()) {
    finish();
  } else {
    nodes_.keep(live_);
  }
  return live_.empty();
}

void SampleSearch::finish() {
  for (Lane& lane : lanes_) {
    decoded_.statistics.accepted_tokens += lane.accepted_tokens;
    decoded_.statistics.emitted_tokens += lane.emitted_tokens;
    decoded_.hypotheses.push_back({std::move(lane.token_ids), lane.log_prob, lane.finished != 0});
  }
}

}  // namespace molspec
