// A search: how one query is decoded. Batch (batch.h) runs the searches of many together.
//
// A round is plan() -> one decoder_step over what was staged -> advance(). Drafts that a search
// does not make itself come from outside: paths() says after which hypotheses, plan() takes them.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "drafting/draft_tree.h"
#include "search/spec.h"
#include "search/token_tree.h"

namespace molspec {

// What a search hands back for one query.
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

// A live hypothesis after which something may be drafted.
struct Path {
  int32_t row;
  std::vector<int32_t> token_ids;  // after BOS
  double log_prob;                 // of them, natural log
  // Behind which the last of them was chosen: its hidden state is the newest there is. kNone at
  // BOS.
  int32_t slot = TokenTree::kNone;
  // Of a sample: what draws its next tokens.
  std::optional<Sampler> sampler = std::nullopt;
};

class BeamNotes;  // beam.h

// The row of a batch that a search works in, and what it shares with the others.
struct Row {
  int32_t index;
  TokenTree* tree;
  BeamNotes* notes;
  std::shared_ptr<const GuessModel> model;

  int32_t add(int32_t parent, int32_t token_id) const { return tree->add(index, parent, token_id); }
  int32_t bos() const { return model->roles().special().bos; }
  int32_t eos() const { return model->roles().special().eos; }
};

class Search {
 public:
  explicit Search(Row row) : row_(std::move(row)) {}
  virtual ~Search() = default;
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Begins a query. source_ids in the target's vocabulary, without BOS and EOS; query_key tells it
  // from others, for searches that draw. May be called again. Throws std::invalid_argument for ids
  // outside of the vocabulary.
  void start(const std::vector<int32_t>& source_ids, uint64_t query_key) {
    query_key_ = query_key;
    decoded_ = {};
    decoded_.query = row_.index;
    begin(source_ids);
  }
  // What start() does that is the search's own.
  virtual void begin(const std::vector<int32_t>& source_ids) = 0;
  // The hypotheses that wait for drafts from outside, if any do.
  virtual void paths(std::vector<Path>& /*out*/) const {}
  // Stages the nodes of the next step. `proposed` has a tree for each of paths().
  virtual void plan(const DraftTree* proposed) = 0;
  // Reads log_probs [staged node, vocab_size]; true where the query is done.
  virtual bool advance(const float* log_probs, int32_t vocab_size) = 0;

  Decoded take() { return std::move(decoded_); }

 protected:
  void count_staged(size_t nodes, size_t drafted) {
    ++decoded_.statistics.steps;
    decoded_.statistics.nodes += static_cast<int64_t>(nodes);
    decoded_.statistics.drafted_tokens += static_cast<int64_t>(drafted);
  }
  // The path to a node.
  Path path(int32_t node, double log_prob) const {
    return {row_.index, row_.tree->path(node), log_prob, row_.tree->parent(node)};
  }

  Row row_;
  Decoded decoded_;
  uint64_t query_key_ = 0;
};

}  // namespace molspec
