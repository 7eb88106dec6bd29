// Guesses the next tokens of paths of many queries all at once: a Spec-Drafter (Xia et al., EMNLP
// Findings 2023). Behind each path stand MASKs, nodes of the token PAD, which a decoder never reads
// otherwise: after the path's last node the next token is guessed, after each MASK the one that
// follows. No node sees those after it, so what is evaluated of a path stays.
//
// A call is ask(), plan(), one step of the decoder, advance(), and then trees().

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/cached_paths.h"
#include "search/place_tree.h"

namespace molspec {

class MaskedPlaces : public CachedPaths {
 public:
  // Throws std::invalid_argument for counts below 1.
  MaskedPlaces(int32_t row_count, std::shared_ptr<const GuessModel> model,
               const PlaceTreeOptions& options);

  void plan();
  // Reads log_probs [staged node, vocab_size]. A tree has the likeliest paths through the guessed
  // places; for a sample it is the chain that its sampler draws.
  void advance(const float* log_probs, int32_t vocab_size);

 private:
  void draw(const PathState& state, int32_t vocab_size, DraftTree& tree) const;

  PlaceTrees place_trees_;
  std::vector<const float*> places_;  // of one path: its log-probs
};

}  // namespace molspec
