#include "search/beam.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace molspec {
// The stepper of rules/beam.h: the settings, and the state of the hypotheses of some lists.
struct BeamSearch::Stepper {
  const BeamSearch& search;
  const BeamLists& lists;

  int32_t beam_size() const { return search.spec_.beam_size; }
  const Stop& stop() const { return search.stop_; }
  bool apart() const { return search.spec_.finished_apart; }
  double score(double log_prob, int32_t length) const { return search.score(log_prob, length); }
  bool evaluated(int32_t rank) const { return note(rank).evaluated; }
  bool is_non_finite(int32_t rank) const { return note(rank).evaluated && note(rank).best.empty(); }
  bool drafted(int32_t rank) const { return note(rank).drafted; }

 private:
  const Note& note(int32_t rank) const { return search.note(lists.beam[rank].node); }
};

BeamSearch::BeamSearch(const BeamSpec& spec, const Row& row)
    : Search(row, spec, spec.proposed ? DrafterOptions(ExternalOptions()) : NoDraftOptions()),
      spec_(spec),
      guess_(*row_.guess) {
  lists_.fit(spec.beam_size);
}

void BeamSearch::begin(const std::vector<int32_t>& source_ids) {
  if (spec_.drafts()) guess_.restart(source_ids);
  lists_.finished_count = 0;
  lists_.count = 1;
  lists_.beam.front() = {0, root_, prefix_length(), 0, 1, kNoToken, -1};
  for (int32_t node = root_; node != TokenTree::kNone; node = row_.tree->parent(node))
    row_.notes->begin(node);
}

// --------------------------------------------------------------------------------------- stage

void BeamSearch::heads(std::vector<Head*>& out) {
  waiting_.clear();
  for (int32_t rank = 0; rank < lists_.count && spec_.proposed; ++rank) {
    const BeamEntry& entry = lists_.beam[rank];
    if (entry.continues(stop_)) waiting_.push_back({entry.node, entry.log_prob});
  }
  for (Head& head : waiting_) out.push_back(&head);
}

int32_t BeamSearch::stage() {
  std::vector<int32_t>& planned = row_.notes->planned;
  planned.clear();
  round_ += spec_.proposed;
  for (int32_t rank = 0; rank < lists_.count; ++rank) {
    const BeamEntry& entry = lists_.beam[rank];
    if (!entry.finished && !note(entry.node).evaluated) planned.push_back(entry.node);
  }
  for (const Head& head : waiting_) {
    Note& last = note(head.node);
    last.proposed = round_;
    last.drafts = &head.drafts;
    last.draft = DraftTree::kRoot;
  }
  const size_t needed = planned.size();
  if (spec_.drafts()) look_ahead();
  stage_planned();
  return static_cast<int32_t>(planned.size() - needed);
}

// Depth first: successive rows share most of their paths, whose keys and values are then still in
// the processor's cache.
void BeamSearch::stage_planned() {
  staged_.clear();
  const std::vector<int32_t>& planned = row_.notes->planned;
  for (const int32_t slot : planned) note(slot).planned = true;
  for (const int32_t slot : planned) {
    const int32_t parent = row_.tree->parent(slot);
    if (parent == TokenTree::kNone || !note(parent).planned) stage_with_planned(slot);
  }
  for (const int32_t slot : planned) note(slot).planned = false;
}

void BeamSearch::stage_with_planned(int32_t slot) {
  nodes_.stage(slot);
  staged_.push_back(slot);
  for (int32_t child = row_.tree->first_child(slot); child != TokenTree::kNone;
       child = row_.tree->next_sibling(child))
    if (note(child).planned) stage_with_planned(child);
}

// Runs beam search ahead on known distributions, and on guesses elsewhere. Each hypothesis has the
// probability that beam search reaches it; unlikely ones are not drafted.
void BeamSearch::look_ahead() {
  BeamLists& ahead = row_.notes->ahead;
  ahead.fit(spec_.beam_size);
  std::copy_n(lists_.beam.begin(), lists_.count, ahead.beam.begin());
  ahead.count = lists_.count;
  ahead.finished_count = 0;
  const Stepper stepper{*this, ahead};
  int32_t budget = spec_.node_budget;
  bool live = true;
  for (int32_t step = 0; step < spec_.steps && budget > 0 && live; ++step) {
    extend(stepper, ahead, choose(ahead, true), true);
    settle(ahead);
    live = false;
    for (int32_t rank = 0; rank < ahead.count; ++rank) {
      const BeamEntry& entry = ahead.beam[rank];
      if (!entry.continues(stop_) || entry.confidence < spec_.min_confidence) continue;
      live = true;
      Note& its = note(entry.node);
      if (its.evaluated || its.planned || budget == 0) continue;
      its.drafted = its.planned = true;
      --budget;
      row_.notes->planned.push_back(entry.node);
    }
  }
}

const std::vector<Candidate>& BeamSearch::guesses(int32_t slot) {
  Note& its = note(slot);
  if (its.guessed != round_) {
    follow(slot);
    guess_.candidates(its.guess_state, width(), its.guesses);
    if (spec_.proposed) blend_drafts(slot);
    its.guessed = round_;
  }
  return its.guesses;
}

void BeamSearch::follow(int32_t slot) {
  Note& its = note(slot);
  if (its.followed) return;
  its.followed = true;
  const int32_t parent = row_.tree->parent(slot);
  if (parent == TokenTree::kNone) return guess_.start(its.guess_state);
  follow(parent);
  guess_.advance(note(parent).guess_state, row_.tree->token_id(slot), its.guess_state);
}

// Finds the node among the external drafts.
void BeamSearch::find_draft(int32_t slot) {
  Note& its = note(slot);
  if (its.proposed == round_) return;
  its.proposed = round_;
  its.drafts = nullptr;
  const int32_t parent = row_.tree->parent(slot);
  if (parent == TokenTree::kNone) return;
  find_draft(parent);
  const Note& before = note(parent);
  if (before.drafts == nullptr) return;
  its.draft = before.drafts->child(before.draft, row_.tree->token_id(slot));
  if (its.draft != DraftTree::kNone) its.drafts = before.drafts;
}

// External drafts come first; the n-gram guess gets the remaining probability.
void BeamSearch::blend_drafts(int32_t slot) {
  find_draft(slot);
  Note& its = note(slot);
  if (its.drafts == nullptr) return;
  const DraftTree& drafts = *its.drafts;
  std::vector<Candidate> blended;
  float left = 1;
  for (int32_t i = 0; i < drafts.size(); ++i) {
    if (drafts.parents[i] != its.draft) continue;
    const float log_prob = drafts.log_probs[i] - drafts.log_prob(its.draft);
    blended.push_back({drafts.token_ids[i], log_prob});
    left -= std::exp(log_prob);
  }
  if (blended.empty()) return;
  const auto drafted = static_cast<std::ptrdiff_t>(blended.size());
  for (const Candidate& guess : its.guesses) {
    const auto same = [&](const Candidate& draft) { return draft.token_id == guess.token_id; };
    if (left <= 0 || std::any_of(blended.begin(), blended.begin() + drafted, same)) continue;
    blended.push_back({guess.token_id, guess.log_prob + std::log(left)});
  }
  std::stable_sort(blended.begin(), blended.end(), likelier);
  blended.resize(std::min(blended.size(), static_cast<size_t>(width())));
  its.guesses = std::move(blended);
}

// -------------------------------------------------------------------------------------- accept

bool BeamSearch::accept(const StepLogProbs& log_probs) {
  for (const int32_t slot : staged_) {
    best_tokens(log_probs.after(slot), log_probs.vocab_size, width(), note(slot).best);
    note(slot).evaluated = true;
  }
  const Stepper stepper{*this, lists_};
  bool live;
  while ((live = is_live(stepper, lists_))) {
    const int32_t choice_count = choose(lists_, false);
    const Verdict verdict = replay(stepper, lists_, choice_count, decoded_.statistics);
    if (verdict == Verdict::kNoNumbers) {
      decoded_.error = kNoNumbers;
      return true;
    }
    if (verdict == Verdict::kDone) break;
    extend(stepper, lists_, choice_count, false);
    settle(lists_);
  }
  if (live) {
    keep();
    return false;
  }
  Beam& best = spec_.finished_apart ? lists_.finished : lists_.beam;
  const int32_t count = spec_.finished_apart ? lists_.finished_count : lists_.count;
  decoded_.hypotheses = ranked_hypotheses(*row_.tree, best, std::min(count, spec_.n_best));
  return true;
}

int32_t BeamSearch::choose(BeamLists& lists, bool guessing) {
  lists.choices.clear();
  bool guessed = false;
  for (int32_t rank = 0; rank < lists.count; ++rank) {
    const BeamEntry& entry = lists.beam[rank];
    const bool evaluated = note(entry.node).evaluated;
    const bool unlikely = guessing && !evaluated && entry.confidence < spec_.min_confidence;
    // Too unlikely in the lookahead, it keeps its place: those that it displaces are unlikely too.
    if (unlikely || !entry.continues(stop_)) {
      lists.choices.push_back({{score(entry.log_prob, entry.length), rank, BeamChoice::kCarried},
                               entry.log_prob,
                               entry.confidence});
    } else if (evaluated || guessing) {
      add_choices(lists, rank, !evaluated);
      guessed |= !evaluated;
    }
  }
  const int32_t most = most_choices(spec_.beam_size, spec_.finished_apart);
  std::vector<BeamChoice>& choices = lists.choices;
  const bool contested = guessed && choices.size() > static_cast<size_t>(most);
  keep_best(choices, most + contested, better);
  if (contested) {
    const double left_out = choices.back().score;
    choices.pop_back();
    // The further a choice scores above the first one left out, the likelier beam search makes it
    // too: from 0.5 at no distance, growing with the distance in nats.
    for (BeamChoice& choice : choices)
      choice.confidence *= 1 - 0.5F * std::exp(static_cast<float>(left_out - choice.score));
  }
  return static_cast<int32_t>(choices.size());
}

void BeamSearch::add_choices(BeamLists& lists, int32_t rank, bool guessed) {
  const BeamEntry& entry = lists.beam[rank];
  for (const Candidate& next : guessed ? guesses(entry.node) : note(entry.node).best) {
    const double log_prob = entry.log_prob + static_cast<double>(next.log_prob);
    lists.choices.push_back(
        {{score(log_prob, entry.length + 1), rank, next.token_id},
         log_prob,
         guessed ? entry.confidence * std::exp(next.log_prob) : entry.confidence});
  }
}

void BeamSearch::settle(BeamLists& lists) {
  const auto look_up = [this](BeamEntry& entry) {
    if (entry.token == kNoToken) return;
    const int32_t child = row_.tree->child(entry.node, entry.token);
    entry.node = child != TokenTree::kNone ? child : nodes_.add(entry.node, entry.token);
    if (child == TokenTree::kNone) row_.notes->begin(entry.node);
    entry.token = kNoToken;
  };
  std::for_each(lists.next.begin(), lists.next.begin() + lists.next_count, look_up);
  std::for_each(lists.finished.begin(), lists.finished.begin() + lists.finished_count, look_up);
  lists.beam.swap(lists.next);
  lists.count = lists.next_count;
}

void BeamSearch::keep() {
  std::vector<QueryNodes::Kept>& kept = row_.notes->kept;
  kept.clear();
  const auto add = [&](const BeamEntry& entry) { kept.push_back({entry.node, !entry.finished}); };
  std::for_each_n(lists_.beam.begin(), lists_.count, add);
  std::for_each_n(lists_.finished.begin(), lists_.finished_count, add);
  nodes_.keep(kept);
}

std::unique_ptr<Search> BeamSpec::search(const Row& row) const {
  return std::make_unique<BeamSearch>(*this, row);
}

}  // namespace molspec
