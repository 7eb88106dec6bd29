// A search: how one query is decoded. Batch (batch.h) runs the searches of many together.
//
// A round is plan() -> one decoder_step over the staged nodes -> advance(). The live hypotheses are
// the *heads*; plan() drafts after each, and stages heads and drafts. An external drafter fills the
// drafts before.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "drafting/drafter.h"
#include "rules/stop.h"
#include "search/head.h"
#include "search/query_nodes.h"
#include "search/spec.h"

namespace molspec {

// An answer to one query.
struct Hypothesis {
  std::vector<int32_t> token_ids;  // without BOS and EOS
  double log_prob = 0.0;           // natural log, sum over the tokens and EOS
  bool finished = false;           // EOS was reached
  // The node whose log-probs chose the last token or EOS: it and those before it are in the tree
  // until the query is done.
  int32_t slot = TokenTree::kNone;
  // Of answers with a given prefix: the part of log_prob that is the prefix's.
  std::optional<double> prefix_log_prob = std::nullopt;
  // With relaxed verification: how many of its tokens are not the model's argmax.
  std::optional<int32_t> tolerated = std::nullopt;
  // With Settings::token_log_probs: of each token, and of EOS. Their sum is log_prob, to the bit.
  std::vector<float> token_log_probs = {};
};

struct SearchStatistics {
  int64_t steps = 0;            // decoder passes for the query
  int64_t nodes = 0;            // rows of those passes
  int64_t drafted_tokens = 0;   // nodes that were drafted
  int64_t accepted_tokens = 0;  // drafted tokens that the model confirmed
  int64_t emitted_tokens = 0;   // greedy: tokens, EOS counted; beams: steps of hypotheses
};

// The error of a query whose log-probs are NaN or infinite.
constexpr char kNoNumbers[] = "the model's log-probabilities are not numbers";
// The errors of a query whose prefix, or whose given targets, cannot be written.
constexpr char kImpossiblePrefix[] = "the model gives target_prefix no probability";
constexpr char kImpossibleTarget[] = "the model gives the target no probability";

struct Decoded {
  int32_t row = 0;                     // of the batch
  std::vector<Hypothesis> hypotheses;  // best first
  SearchStatistics statistics;
  std::string error;  // why there are no hypotheses; otherwise empty
};

// A head as an external drafter gets it.
struct Path {
  int32_t row;
  std::vector<int32_t> token_ids;  // after BOS
  double log_prob;                 // of them, natural log; 0 until a given prefix is evaluated
  // The node whose log-probs chose the last token: its hidden state is the newest. kNone at BOS and
  // until a given prefix is evaluated.
  int32_t slot = TokenTree::kNone;
  // Of a sample: draws its next tokens.
  std::optional<Sampler> sampler = std::nullopt;
};

class BeamNotes;    // beam.h
class DraftLedger;  // draft_ledger.h

// The row of a batch that a search works in, and the data shared by all rows.
struct Row {
  int32_t index;
  TokenTree* tree;
  BeamNotes* notes;
  std::shared_ptr<const GuessModel> guess;
  DraftLedger* ledger = nullptr;

  int32_t eos() const { return guess->roles().special().eos; }
};

// A row of a batch that is live, or free. Throws std::invalid_argument if it is not, or if it does
// not exist.
template <typename Query>
Query& checked_row(std::vector<Query>& rows, int32_t index, bool live) {
  require(index >= 0 && static_cast<size_t>(index) < rows.size(), "row", index, "0 to ",
          rows.size() - 1);
  if (rows[index].live != live) throw_invalid("row ", index, live ? " is free" : " is taken");
  return rows[index];
}

// The model's log-probs after the nodes of a step.
struct StepLogProbs {
  const TokenTree& tree;
  const float* rows;  // [staged node, vocab_size]
  int32_t vocab_size;

  // The row [vocab_size] of a staged node.
  const float* after(int32_t node) const {
    return rows + int64_t{tree.staged_index(node)} * vocab_size;
  }
};

class Search {
 public:
  Search(const Row& row, const Settings& settings, const DrafterOptions& drafter)
      : row_(row),
        nodes_(row.tree, row.index),
        drafter_(make_drafter(drafter, row.guess)),
        stop_{row.eos(), settings.max_length} {}
  virtual ~Search() = default;
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Begins a query. source_ids are in the target's vocabulary, without BOS and EOS. query_key
  // identifies the query, for samples. Its answers begin with `prefix`. May be called again. Throws
  // std::invalid_argument for ids outside the vocabulary.
  void start(const std::vector<int32_t>& source_ids, uint64_t query_key,
             const std::vector<int32_t>& prefix);
  // The heads whose drafts come from an external drafter, and one as the drafter gets it.
  std::span<Head* const> waiting() const {
    return drafter_ ? std::span<Head* const>() : std::span(heads_);
  }
  Path path(const Head& head) const;
  // Stages the nodes of the next step: the heads, and drafts after them.
  void plan();
  // Reads the log-probs of the step. Returns whether the query is done.
  bool advance(const StepLogProbs& log_probs);
  Decoded take();

 protected:
  int32_t prefix_length() const { return static_cast<int32_t>(prefix_.size()); }

  Row row_;
  QueryNodes nodes_;
  std::unique_ptr<Drafter> drafter_;  // null if an external one drafts
  Stop stop_;
  DraftLedger* ledger_ = nullptr;  // null if drafts need not pay
  std::vector<Head*> heads_;
  Decoded decoded_;
  uint64_t query_key_ = 0;
  std::vector<int32_t> prefix_;      // tokens
  int32_t root_ = TokenTree::kNone;  // the node of the last of them, or of BOS

 private:
  virtual void begin(const std::vector<int32_t>& source_ids) = 0;
  // Appends the live hypotheses. They stay where they are until the end of accept().
  virtual void heads(std::vector<Head*>& out) = 0;
  virtual bool accept(const StepLogProbs& log_probs) = 0;
  // The parts of plan(), for searches that have their own. stage() returns the number of drafted
  // nodes.
  virtual int32_t stage();
  virtual void draft(Head& head);
  // Sets the log-prob of the hypotheses that begin with the root.
  virtual void set_log_prob(double log_prob) {
    for (Head* head : heads_) head->log_prob = log_prob;
  }

  void find_heads() {
    heads_.clear();
    heads(heads_);
  }

  std::vector<int32_t> before_root_;  // nodes; none once they are evaluated
  double prefix_log_prob_ = 0;        // once they are evaluated
};

}  // namespace molspec
