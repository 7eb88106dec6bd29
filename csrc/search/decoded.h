// What a search hands back for one query.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace molspec {

struct Hypothesis {
  std::vector<int32_t> token_ids;  // after BOS; EOS, where there is one, is not among them
  double log_prob = 0.0;           // natural log, sum over the tokens and EOS
  bool finished = false;           // EOS was reached
  // Of samples that all differ: how probably it is among so many of them.
  std::optional<double> inclusion = std::nullopt;
  // Of relaxed verification: its tokens that are not the model's argmax.
  std::optional<int32_t> tolerated = std::nullopt;
};

struct SearchStatistics {
  int64_t steps = 0;            // decoder passes the query took part in
  int64_t nodes = 0;            // rows of those passes
  int64_t drafted_tokens = 0;   // nodes that were a guess
  int64_t accepted_tokens = 0;  // guesses that the model confirmed
  int64_t emitted_tokens = 0;   // steps of hypotheses, EOS counted; of greedy decoding its tokens
};

// The error of a query whose log-probs are NaN or infinite.
constexpr char kNoNumbers[] = "the model's log-probabilities are not numbers";

struct Decoded {
  int32_t query = 0;                   // the row of the batch
  std::vector<Hypothesis> hypotheses;  // best first
  SearchStatistics statistics;
  std::string error;  // why there are no hypotheses, where there are none
};

}  // namespace molspec
