// Steps of standard beam search, for host and device: which hypotheses make the next beam, and when
// a step may be taken ("exact replay").
//
// Host and device have their own types for the lists of a query. They offer
//
//   beam, next, finished, choices    arrays: hypotheses by rank, those of the next beam, those that
//                                    finished apart (room for one more than beam_size), and the
//                                    best extensions of the beam, best first
//   count, next_count, finished_count
//
// and a *stepper* offers
//
//   beam_size(), stop(), apart()     apart: finished hypotheses leave the beam
//   score(log_prob, length)          log_prob / length^length_penalty
//   evaluated(rank)                  whether the model's log-probs after a hypothesis are known
//   is_non_finite(rank)              they are known, and are not numbers
//   drafted(rank)                    its node was staged by the lookahead

#pragma once

#include <cstdint>

#include "common/anywhere.h"
#include "rules/accept.h"
#include "rules/candidate.h"

namespace molspec {

constexpr int32_t kNoToken = -1;

// A hypothesis of a beam.
struct BeamEntry {
  double log_prob;
  int32_t node;  // of the last token; while `token` is set, of the token before it; if finished, of
                 // the token before EOS
  int32_t length;  // emitted tokens, EOS counted
  int32_t finished;
  float confidence;  // in the lookahead: the probability that beam search reaches it
  int32_t token;     // the last token, if its node is not looked up yet; or kNoToken
  int32_t parent;    // on a device: the rank of the hypothesis that it extends

  MOLSPEC_ANYWHERE bool continues(const Stop& stop) const {
    return stop.continues(finished, length);
  }
};

// An extension of a hypothesis of the beam, or that hypothesis itself.
struct BeamChoice : RankedCandidate {
  static constexpr int32_t kCarried = -1;  // its token_id

  double log_prob;
  float confidence;
};

// Tokens of one hypothesis that may be chosen: beam_size, and EOS too if finished hypotheses take
// no place in the beam.
MOLSPEC_ANYWHERE inline int32_t candidate_count(int32_t beam_size, bool apart) {
  return beam_size + (apart ? 1 : 0);
}

// Choices that make a beam. If hypotheses finish apart, all of the first beam_size may finish, and
// as many others then fill the beam.
MOLSPEC_ANYWHERE inline int32_t most_choices(int32_t beam_size, bool apart) {
  return apart ? 2 * beam_size : beam_size;
}

// Whether a hypothesis whose distribution is unknown, or not numbers, may affect the step. It does
// not if no extension of it, not even one of log-probability 0, would be among the choices.
template <typename Stepper, typename Lists>
MOLSPEC_ANYWHERE bool may_matter(const Stepper& stepper, const Lists& lists, int32_t rank,
                                 int32_t choice_count) {
  int32_t left = stepper.beam_size();
  const BeamEntry& entry = lists.beam[rank];
  for (int32_t i = 0; i < choice_count; ++i) {
    const BeamChoice& choice = lists.choices[i];
    left -= stepper.apart() && stepper.stop().finishes(choice.token_id) ? 0 : 1;
    if (left == 0) return choice.score <= stepper.score(entry.log_prob, entry.length + 1);
  }
  return true;
}

// Whether the search continues.
template <typename Stepper, typename Lists>
MOLSPEC_ANYWHERE bool is_live(const Stepper& stepper, const Lists& lists) {
  if (stepper.apart()) {
    if (lists.count == 0 || lists.finished_count < stepper.beam_size()) return lists.count > 0;
    const BeamEntry &best = lists.beam[0], &last = lists.finished[stepper.beam_size() - 1];
    return stepper.score(best.log_prob, best.length) > stepper.score(last.log_prob, last.length);
  }
  for (int32_t rank = 0; rank < lists.count; ++rank)
    if (lists.beam[rank].continues(stepper.stop())) return true;
  return false;
}

// Whether the choices make a step of beam search: all distributions that may matter are known
// (kContinues), some are not (kDone: no step yet), or one is not numbers (kNoNumbers). `answer` has
// accepted_tokens and emitted_tokens.
template <typename Stepper, typename Lists, typename Answer>
MOLSPEC_ANYWHERE Verdict replay(const Stepper& stepper, const Lists& lists, int32_t choice_count,
                                Answer& answer) {
  const auto missing = [&](int32_t rank) {
    return !lists.beam[rank].finished && !stepper.evaluated(rank);
  };
  for (int32_t rank = 0; rank < lists.count; ++rank)
    if (missing(rank) && may_matter(stepper, lists, rank, choice_count)) return Verdict::kDone;
  for (int32_t rank = 0; rank < lists.count; ++rank) {
    if (!lists.beam[rank].continues(stepper.stop()) || !stepper.is_non_finite(rank)) continue;
    if (may_matter(stepper, lists, rank, choice_count)) return Verdict::kNoNumbers;
  }
  for (int32_t rank = 0; rank < lists.count; ++rank) {
    if (lists.beam[rank].finished || missing(rank)) continue;
    ++answer.emitted_tokens;
    answer.accepted_tokens += stepper.drafted(rank);
  }
  return Verdict::kContinues;
}

// The hypothesis after a choice; its node is not looked up yet.
MOLSPEC_ANYWHERE inline BeamEntry extended(const BeamEntry& from, const BeamChoice& choice,
                                           const Stop& stop) {
  BeamEntry entry = from;
  entry.confidence = choice.confidence;
  entry.token = kNoToken;
  if (choice.token_id == BeamChoice::kCarried) return entry;
  entry.log_prob = choice.log_prob;
  ++entry.length;
  entry.finished = stop.finishes(choice.token_id);  // then it needs no node
  if (!entry.finished) entry.token = choice.token_id;
  return entry;
}

// Inserts a finished hypothesis; the best beam_size stay, the earlier one among equals.
template <typename Stepper, typename Lists>
MOLSPEC_ANYWHERE void keep_finished(const Stepper& stepper, Lists& lists, const BeamEntry& entry) {
  const double mine = stepper.score(entry.log_prob, entry.length);
  int32_t at = lists.finished_count;
  for (; at > 0; --at) {
    const BeamEntry& before = lists.finished[at - 1];
    if (!(mine > stepper.score(before.log_prob, before.length))) break;
    lists.finished[at] = before;
  }
  lists.finished[at] = entry;
  if (lists.finished_count < stepper.beam_size()) ++lists.finished_count;
}

// Writes the beam that the choices make to `next`. If hypotheses finish apart, those that end are
// not in it; they go to `finished` if they are among the first beam_size choices, except in the
// lookahead.
template <typename Stepper, typename Lists>
MOLSPEC_ANYWHERE void extend(const Stepper& stepper, Lists& lists, int32_t choice_count,
                             bool guessing) {
  lists.next_count = 0;
  for (int32_t i = 0; i < choice_count; ++i) {
    const BeamChoice& choice = lists.choices[i];
    const BeamEntry entry = extended(lists.beam[choice.parent_rank], choice, stepper.stop());
    if (stepper.apart() && !entry.continues(stepper.stop())) {
      if (!guessing && i < stepper.beam_size()) keep_finished(stepper, lists, entry);
    } else if (lists.next_count < stepper.beam_size()) {
      lists.next[lists.next_count++] = entry;
    }
  }
}

}  // namespace molspec
