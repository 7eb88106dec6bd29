#include "search/sample.h"

#include "search/rejection.h"

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
    samplers_.emplace_back(spec_.sampling, query_key_, static_cast<uint32_t>(i), spec_.rejection);
  drafts_.assign(lanes_.size(), nullptr);
}

void SampleSearch::paths(std::vector<Path>& out) const {
  if (drafter_) return;
  for (size_t i = 0; i < lanes_.size(); ++i)
    if (lanes_[i].live)
      out.push_back({row_.index, lanes_[i].token_ids, lanes_[i].log_prob,
                     row_.tree->parent(lanes_[i].node), samplers_[i].of_drafter()});
}

void SampleSearch::plan(const DraftTree* proposed) {
  nodes_.unstage();
  for (const Lane& lane : lanes_)
    if (lane.live) nodes_.stage(lane.node);
  size_t drafted = 0;  // each sample's count, though they may be shared
  drafted_.clear();
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (!lanes_[i].live) continue;
    drafts_[i] = &drafts_behind(lanes_[i], proposed);
    drafted += static_cast<size_t>(nodes_.stage(lanes_[i].node, *drafts_[i], spec_.max_length));
  }
  nodes_.submit();
  count_staged(nodes_.staged_count(), drafted);
}

const DraftTree& SampleSearch::drafts_behind(const Lane& lane, const DraftTree*& proposed) {
  if (!drafter_) return *proposed++;
  const auto [found, is_new] = drafted_.try_emplace(lane.node);
  const auto& token_ids = lane.token_ids;
  if (is_new)
    drafter_->propose(token_ids.data(), static_cast<int>(token_ids.size()), found->second);
  return found->second;
}

bool SampleSearch::advance(const float* log_probs, int32_t vocab_size) {
  live_.clear();
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    if (!lane.live) continue;
    Rejection rejection(samplers_[i], *drafts_[i]);
    const auto choose = [&](const Lane& at, const float* row) {
      const auto position = static_cast<uint32_t>(at.token_ids.size());
      return spec_.rejection ? rejection.at(row, vocab_size, position)
                             : samplers_[i].at(row, vocab_size, position);
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

std::unique_ptr<Search> SampleSpec::search(const Row& row) const {
  return std::make_unique<SampleSearch>(*this, row);
}

}  // namespace molspec
