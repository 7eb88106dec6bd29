// A cheap guess of the model's next-token distributions, for drafting and for lookahead.
//
// Two sources of evidence: the query (a target mostly copies runs of its source) and a token n-gram
// model of targets. Both speak in ring symbols, see ring_symbols.h.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "text/ngram.h"
#include "text/ring_symbols.h"
#include "text/token_roles.h"

namespace molspec {

struct Candidate {
  int32_t token;
  float log_prob;  // natural log
};

// What a loaded model gives every query: immutable, shared by threads.
class GuessModel {
 public:
  // `ngram` may be null: then every token is equally likely a priori. Throws std::invalid_argument
  // where its alphabet is not the vocabulary's.
  GuessModel(TokenRoles roles, std::shared_ptr<const NgramModel> ngram);

  const TokenRoles& roles() const { return roles_; }
  const RingSymbols& symbols() const { return symbols_; }
  const NgramModel* ngram() const { return ngram_.get(); }

 private:
  TokenRoles roles_;
  RingSymbols symbols_;
  std::shared_ptr<const NgramModel> ngram_;
};

// What a guess remembers of one path. Copyable; reusing one allocates nothing once it is warm.
struct GuessState {
  // For every copy point p (0 to source length): how many of the newest symbols equal the source
  // symbols directly before p. BOS counts on both sides. At most 255.
  std::vector<uint8_t> match_lengths;
  std::array<int32_t, NgramModel::kMaxOrder - 1> context;  // newest symbols, oldest first
  int context_length = 0;
  int open_parentheses = 0;
  OpenRings rings;
};

// The guess for one query. Its methods share scratch memory: one thread at a time.
class Guess {
 public:
  // source_ids without BOS and EOS, in the target's vocabulary. The model must outlive the guess.
  // Throws std::invalid_argument for ids outside of the vocabulary.
  Guess(const int32_t* source_ids, int source_length, const GuessModel& model);

  const GuessModel& model() const { return *model_; }
  // Another query with the same model, reusing this one's memory.
  void restart(const int32_t* source_ids, int source_length);

  // The state behind BOS.
  void start(GuessState& state) const;
  // `child` must not be `parent`. Throws std::invalid_argument for ids outside of the vocabulary.
  void advance(const GuessState& parent, int32_t token, GuessState& child) const;
  // Replaces `out` with the at most `limit` likeliest tokens, by falling log_prob, then by token
  // id. The probabilities of all tokens sum to at most 1. EOS is a candidate; PAD, BOS and UNK
  // never.
  void candidates(const GuessState& state, int limit, std::vector<Candidate>& out) const;

 private:
  const GuessModel* model_;
  std::vector<int32_t> source_symbols_;  // and EOS
  mutable std::vector<float> scores_;    // [alphabet]
  mutable std::vector<float> prior_;     // [alphabet]
};

}  // namespace molspec
