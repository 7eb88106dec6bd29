// Continues paths of many queries by a few tokens: a model that drafts for another one, with a
// cache of its own.
//
// A call is ask() and then rounds, as those of Batch: paths(), plan(), a step of the decoder,
// advance(), until it says that all are done; then trees().

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/cached_paths.h"

namespace molspec {

class Continuations : public CachedPaths {
 public:
  // drafts: by whom the drafting model itself drafts. width: the likeliest tokens that a tree has
  // of each place beside the one that goes on. Throws std::invalid_argument for counts below 1.
  Continuations(int32_t row_count, std::shared_ptr<const GuessModel> model,
                const DrafterOptions& drafts, int32_t width);

  void start(int32_t row, const std::vector<int32_t>& source_ids);

  std::vector<Path> paths() const;
  void plan(const std::vector<DraftTree>& proposed);
  // Reads log_probs [staged node, vocab_size]; true where all are done. A tree is a chain, with the
  // other likely tokens of its places.
  bool advance(const float* log_probs, int32_t vocab_size);

 private:
  void note(PathState& state, DraftTree& tree, const float* log_probs, int32_t vocab_size);

  DrafterOptions drafts_;
  int32_t width_;
  std::vector<std::unique_ptr<Drafter>> drafters_;  // by row; none where drafts come from outside
  std::vector<Candidate> likeliest_;                // scratch
};

}  // namespace molspec
