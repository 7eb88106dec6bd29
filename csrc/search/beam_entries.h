// What every beam search keeps of a query: its hypotheses by rank, and the nodes they stand on.

#pragma once

#include <cstdint>
#include <vector>

#include "drafting/guess.h"
#include "ops/candidate.h"
#include "search/decoded.h"
#include "search/token_tree.h"

namespace molspec {

// What every beam search is asked for.
struct ListOptions {
  int32_t beam_size;
  int32_t n_best;
  int32_t max_length;  // tokens of a hypothesis, EOS counted
  double length_penalty;
};

// Throw std::invalid_argument, naming the option, where one makes no sense.
void check(const ListOptions& options);
void require(bool holds, const char* name, double value, const char* expected);

// One place in a beam.
struct BeamEntry {
  int32_t slot = TokenTree::kNone;  // of the last token; of a finished hypothesis, that before EOS
  int32_t length = 0;               // emitted tokens, EOS counted
  double log_prob = 0.0;
  bool finished = false;
  float confidence = 1.0F;  // looking ahead: that standard beam search comes by
};

using Beam = std::vector<BeamEntry>;  // by rank

// An extension of a hypothesis of the beam, or that hypothesis itself where it is finished.
struct BeamChoice : RankedCandidate {
  static constexpr int32_t kCarried = -1;  // the token_id of a finished hypothesis

  double log_prob;
  float confidence;
  int32_t slot;    // the node that the token follows
  int32_t length;  // with the token
};

// Every node of one query, parents before children.
class BeamNodes {
 public:
  void clear() { slots_.clear(); }
  int32_t add(TokenTree& tree, int32_t query, int32_t parent, int32_t token_id);
  // Gives back the nodes that no hypothesis of the beam has before it or behind it.
  void collect(TokenTree& tree, const Beam& beam);

 private:
  std::vector<int32_t> slots_;
  std::vector<char> marks_;  // by slot
};

// What log-probs of so many tokens are divided by: length^length_penalty.
double length_norm(int32_t length, double length_penalty);
// log_prob, or log_prob / length_norm.
double beam_score(double log_prob, int32_t length, double length_penalty);

// The `count` most probable tokens of a row, the lower id first among equals. NaN is passed over; a
// row that begins with it, or whose greatest is infinite, has none.
void best_tokens(const float* log_probs, int32_t vocab_size, int32_t count,
                 std::vector<Candidate>& out);

// The first n_best of a beam with their tokens.
std::vector<Hypothesis> ranked_hypotheses(const TokenTree& tree, const Beam& beam, int32_t n_best);

}  // namespace molspec
