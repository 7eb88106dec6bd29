// select_hypotheses: the best candidates of every query, in the order of rules/candidate.h.

#pragma once

#include <cstdint>
#include <tuple>

#include "ops/refuse.h"

namespace molspec {

struct SelectHypothesesProblem {
  int64_t query_count, candidate_count, beam_size;
  const double* scores;             // [query, candidate]
  const int64_t* parent_ranks;      // [query, candidate]
  const int64_t* token_ids;         // [query, candidate]
  const int64_t* candidate_counts;  // [query]
  int64_t* indices;                 // [query, beam_size]
  int64_t* counts;                  // [query]
};

// Everything but the outputs and the values of candidate_counts and scores.
SelectHypothesesProblem select_hypotheses_check(const Tensor& scores, const Tensor& parent_ranks,
                                                const Tensor& token_ids,
                                                const Tensor& candidate_counts, int64_t beam_size);

// The results, where `like` lies; the problem points to them.
std::tuple<Tensor, Tensor> select_hypotheses_results(SelectHypothesesProblem& problem,
                                                     const Tensor& like);

}  // namespace molspec
