// Sampling, speculative or not: greedy decoding whose argmax is of noisy log-probs (rules/noise.h).
// Given the seed, the samples of a query are one list: who drafts changes the time alone.
//
// The samples are lanes of one row. They share the memory, and their paths as far as they are the
// same.

#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "search/lanes.h"

namespace molspec {

class SampleSearch final : public Search {
 public:
  SampleSearch(const SampleSpec& spec, Row row);

  void start(const std::vector<int32_t>& source_ids) override;
  void paths(std::vector<Path>& out) const override;
  void plan(const DraftTree* proposed) override;
  bool advance(const float* log_probs, int32_t vocab_size) override;

 private:
  const DraftTree& drafts_behind(const Lane& lane, const DraftTree*& proposed);
  void finish();

  SampleSpec spec_;
  std::unique_ptr<Drafter> drafter_;  // none where drafts come from outside
  Lanes nodes_;
  std::vector<Lane> lanes_;                         // a sample each
  std::vector<Sampler> samplers_;                   // of the lanes
  std::vector<int32_t> live_;                       // scratch
  std::vector<const DraftTree*> drafts_;            // of the lanes, in this round
  std::unordered_map<int32_t, DraftTree> drafted_;  // own drafts after a node
};

}  // namespace molspec
