// A cheap guess of the model's next-token distributions, for drafting and for lookahead.
//
// A target mostly copies its source; elsewhere its edits resemble those of other targets. So a path
// has a *copy point*: the position of the copy text (copy_text.h) that it seems to copy. An n-gram
// model (ngram.h) gives the probability that the next symbol is the one at the copy point, and of
// the alternatives, from the newest symbols, the next symbols to be copied, and how long the path
// has been copying. All symbols are ring symbols (text/symbol_table.h).

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "drafting/copy_text.h"
#include "drafting/host_team.h"
#include "drafting/ngram.h"
#include "text/token_roles.h"

namespace molspec {

struct Candidate {
  int32_t token_id;
  float log_prob;  // natural log
};

// The data of a loaded model that all queries share: immutable, used by several threads.
class GuessModel {
 public:
  // Throws std::invalid_argument if the n-gram model's alphabet or order do not fit.
  GuessModel(TokenRoles roles, std::shared_ptr<const NgramModel> ngram);
  // Without an n-gram model the guess only predicts copying.
  GuessModel(TokenRoles roles, bool rewrites);

  const TokenRoles& roles() const { return roles_; }
  SymbolTable symbols() const { return roles_.symbols(); }
  // Symbols of the n-gram model: the ring symbols, then GuessRules::copy_symbol().
  int alphabet_size() const { return symbols().alphabet_size() + 1; }
  const NgramModel* ngram() const { return ngram_.get(); }
  bool rewrites() const { return rewrites_; }

 private:
  TokenRoles roles_;
  std::shared_ptr<const NgramModel> ngram_;
  bool rewrites_;
};

// The guess's state of one path. Copyable; a reused one allocates nothing once it has grown.
struct GuessState {
  std::vector<uint8_t> match_lengths, copied;
  GuessCursor cursor;

  GuessStateView view() { return {match_lengths.data(), copied.data(), &cursor}; }
};

using GuessContext = std::array<int32_t, kGuessContext>;

// The guess for one query. Not thread-safe: its methods share scratch memory.
class Guess {
 public:
  // Contexts and the symbol after them.
  static constexpr int kNgramOrder = kGuessContext + 1;

  // Begins with an empty source. The model must outlive the guess.
  explicit Guess(const GuessModel& model) : model_(&model), writer_(model.roles()) { restart({}); }

  // Begins a query, reusing memory. source_ids are in the target's vocabulary, without BOS and EOS.
  // Throws std::invalid_argument for ids outside it.
  void restart(const std::vector<int32_t>& source_ids);

  // The state after BOS.
  void start(GuessState& state) const;
  // `child` must not be `parent`. Throws std::invalid_argument for ids outside the vocabulary.
  void advance(const GuessState& parent, int32_t token, GuessState& child) const;
  // Replaces `out` with the at most `limit` likeliest tokens, by falling log_prob, then by token
  // id. The probabilities of all tokens sum to at most 1. EOS is a candidate; PAD, BOS and UNK
  // never are. Tokens too unlikely to matter (together below kGuessFloor) may be missing, and
  // tokens less likely than `least`.
  void candidates(const GuessState& state, int limit, std::vector<Candidate>& out,
                  float least = 0) const;

  // For training: the context of a state, and the symbol that a token is after it.
  GuessContext context(const GuessState& state) const;
  int32_t observed_symbol(const GuessState& state, int32_t token) const;

  // The copy text, for a guess on a device.
  const GuessText& text() const { return rules_.text; }

 private:
  static GuessStateView view(const GuessState& state);
  // Write distinct symbols to lookup_.found and return how many: by the n-gram model, or from the
  // copy text alone.
  int find_symbols(const GuessState& state) const;
  int find_copies(const GuessState& state) const;

  const GuessModel* model_;
  CopyTextWriter writer_;
  CopyText text_;
  std::vector<uint8_t> codes_;           // [copy text]
  std::vector<uint8_t> code_of_symbol_;  // [ring symbols]
  GuessRules rules_;                     // over these
  std::array<int32_t, 256> symbol_of_code_;
  mutable std::array<float, 256> code_odds_;
  mutable NgramLookup lookup_;
};

}  // namespace molspec
