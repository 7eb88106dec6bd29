#include "search/beam.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace molspec {

void check(const BeamOptions& options) {
  check(static_cast<const ListOptions&>(options));
  require(options.lookahead_steps >= 0, "lookahead_steps", options.lookahead_steps, "at least 0");
  require(options.node_budget >= 0, "node_budget", options.node_budget, "at least 0");
  require(options.min_confidence >= 0 && options.min_confidence <= 1, "min_confidence",
          options.min_confidence, "0 to 1");
}

BeamSearch::BeamSearch(const BeamOptions& options, std::shared_ptr<const GuessModel> guess_model,
                       int32_t query_count)
    : options_(options), guess_model_(std::move(guess_model)), tree_(query_count) {
  check(options);
  require(query_count >= 1, "query_count", query_count, "at least 1");
  queries_.resize(static_cast<size_t>(query_count));
}

void BeamSearch::start(int32_t index, const std::vector<int32_t>& source_ids) {
  Query& query = queries_.at(static_cast<size_t>(index));
  if (query.live) throw std::invalid_argument("row " + std::to_string(index) + " is taken");
  const auto length = static_cast<int>(source_ids.size());
  if (query.guess) {
    query.guess->restart(source_ids.data(), length);
  } else {
    query.guess.emplace(source_ids.data(), length, *guess_model_);
  }
  tree_.clear_staged();
  query.live = true;
  ++live_count_;
  query.decoded = {};
  query.decoded.query = index;
  query.nodes.clear();
  query.finished.clear();
  query.beam.assign(1, {});
  query.beam.front().slot =
      child_or_new(index, query, TokenTree::kNone, guess_model_->roles().special().bos);
}

int32_t BeamSearch::child_or_new(int32_t index, Query& query, int32_t parent, int32_t token_id) {
  if (parent != TokenTree::kNone) {
    const int32_t child = tree_.child(parent, token_id);
    if (child != TokenTree::kNone) return child;
  }
  const int32_t slot = query.nodes.add(tree_, index, parent, token_id);
  if (known_.size() <= static_cast<size_t>(slot)) known_.resize(static_cast<size_t>(slot) + 1);
  Known& fresh = known(slot);
  fresh.evaluated = fresh.drafted = fresh.planned = fresh.guessed = false;
  return slot;
}

double BeamSearch::score(double log_prob, int32_t length) const {
  return beam_score(log_prob, length, options_.length_penalty);
}

// Tokens of a hypothesis that may be chosen: beam_size, and EOS beside them where it needs no
// place.
int32_t BeamSearch::candidate_count() const {
  return options_.beam_size + (options_.finished_apart ? 1 : 0);
}

// ---------------------------------------------------------------------------------------- plan

void BeamSearch::plan() {
  tree_.clear_staged();
  staged_slots_.clear();
  for (size_t i = 0; i < queries_.size(); ++i) {
    Query& query = queries_[i];
    if (!query.live) continue;
    planned_.clear();
    for (const BeamEntry& entry : query.beam)
      if (!entry.finished && !known(entry.slot).evaluated) planned_.push_back(entry.slot);
    const size_t needed = planned_.size();
    if (options_.lookahead_steps > 0) look_ahead(static_cast<int32_t>(i), query);
    query.staged_count = static_cast<int32_t>(planned_.size());
    SearchStatistics& statistics = query.decoded.statistics;
    ++statistics.steps;
    statistics.nodes += query.staged_count;
    statistics.drafted_tokens += static_cast<int64_t>(planned_.size() - needed);
    stage_planned(static_cast<int32_t>(i));
  }
}

// Depth first: rows that follow each other share most of their paths, whose keys and values then
// are in cache still.
void BeamSearch::stage_planned(int32_t index) {
  for (const int32_t slot : planned_) known(slot).planned = true;
  for (const int32_t slot : planned_) {
    const int32_t parent = tree_.parent(slot);
    if (parent == TokenTree::kNone || !known(parent).planned) stage(index, slot);
  }
  for (const int32_t slot : planned_) known(slot).planned = false;
}

void BeamSearch::stage(int32_t index, int32_t slot) {
  tree_.stage(index, slot);
  staged_slots_.push_back(slot);
  for (int32_t child = tree_.first_child(slot); child != TokenTree::kNone;
       child = tree_.next_sibling(child))
    if (known(child).planned) stage(index, child);
}

// The recurrence of beam search on what is known, and on guesses where it is not. A hypothesis
// carries how likely beam search is to come by. An unlikely one is not drafted, but it keeps its
// place in the beam: what it keeps out is unlikely too.
void BeamSearch::look_ahead(int32_t index, Query& query) {
  int32_t budget = options_.node_budget;
  ahead_ = query.beam;
  for (int32_t step = 0; step < options_.lookahead_steps && budget > 0; ++step) {
    choose(query, ahead_, true);
    extend(index, query, ahead_, nullptr);
    bool live = false;
    for (const BeamEntry& entry : ahead_) {
      if (entry.finished || entry.length >= options_.max_length ||
          entry.confidence < options_.min_confidence)
        continue;
      live = true;
      Known& node = known(entry.slot);
      if (node.evaluated || node.drafted || budget == 0) continue;
      node.drafted = true;
      --budget;
      planned_.push_back(entry.slot);
    }
    if (!live) return;
  }
}

const std::vector<Candidate>& BeamSearch::guesses(Query& query, int32_t slot) {
  Known& node = known(slot);
  if (!node.guessed) {
    const int32_t parent = tree_.parent(slot);
    if (parent == TokenTree::kNone) {
      query.guess->start(node.guess_state);
    } else {
      guesses(query, parent);
      query.guess->advance(known(parent).guess_state, tree_.token_id(slot), node.guess_state);
    }
    query.guess->candidates(node.guess_state, candidate_count(), node.guesses);
    node.guessed = true;
  }
  return node.guesses;
}

// ------------------------------------------------------------------------------------- advance

void BeamSearch::advance(const float* log_probs, int32_t vocab_size, std::vector<Decoded>& done) {
  size_t staged = 0;
  for (size_t i = 0; i < queries_.size(); ++i) {
    Query& query = queries_[i];
    if (!query.live) continue;
    const auto index = static_cast<int32_t>(i);
    for (int32_t row = 0; row < query.staged_count; ++row, ++staged) {
      Known& node = known(staged_slots_[staged]);
      best_tokens(log_probs + static_cast<int64_t>(staged) * vocab_size, vocab_size,
                  candidate_count(), node.best);
      node.evaluated = true;
    }
    while (live(query) && replay_step(index, query)) {
    }
    if (!query.decoded.error.empty()) {
      query.beam.clear();
      query.finished.clear();
    }
    if (live(query)) {
      next_ = query.beam;
      next_.insert(next_.end(), query.finished.begin(), query.finished.end());
      query.nodes.collect(tree_, next_);
    } else {
      finish(index, query, done);
    }
  }
  tree_.clear_staged();
}

bool BeamSearch::live(const Query& query) const {
  if (options_.finished_apart) {
    const bool full = query.finished.size() == static_cast<size_t>(options_.beam_size);
    return !query.beam.empty() &&
           !(full && score(query.beam.front()) <= score(query.finished.back()));
  }
  return std::any_of(query.beam.begin(), query.beam.end(), [this](const BeamEntry& entry) {
    return !entry.finished && entry.length < options_.max_length;
  });
}

bool BeamSearch::replay_step(int32_t index, Query& query) {
  choose(query, query.beam, false);
  for (const BeamEntry& entry : query.beam)
    if (is_missing(entry) && may_matter(entry)) return false;
  for (const BeamEntry& entry : query.beam) {
    if (!is_numberless(entry) || !may_matter(entry)) continue;
    query.decoded.error = kNoNumbers;
    return false;
  }
  SearchStatistics& statistics = query.decoded.statistics;
  for (const BeamEntry& entry : query.beam) {
    if (entry.finished || is_missing(entry)) continue;
    ++statistics.emitted_tokens;
    statistics.accepted_tokens += known(entry.slot).drafted ? 1 : 0;
  }
  extend(index, query, query.beam, &query.finished);
  return true;
}

bool BeamSearch::is_missing(const BeamEntry& entry) const {
  return !entry.finished && !known_[static_cast<size_t>(entry.slot)].evaluated;
}

bool BeamSearch::is_numberless(const BeamEntry& entry) const {
  const Known& node = known_[static_cast<size_t>(entry.slot)];
  return !entry.finished && entry.length < options_.max_length && node.evaluated &&
         node.best.empty();
}

// A hypothesis whose distribution is not known, or holds no numbers, may still be left out where no
// extension of it, not even one of log-probability 0, would be among the choices made without it.
bool BeamSearch::may_matter(const BeamEntry& entry) const {
  const int32_t eos = guess_model_->roles().special().eos;
  int32_t places = options_.beam_size;
  const auto last = std::find_if(choices_.begin(), choices_.end(), [&](const BeamChoice& choice) {
    places -= options_.finished_apart && choice.token_id == eos ? 0 : 1;
    return places == 0;
  });
  return last == choices_.end() || last->score <= score(entry.log_prob, entry.length + 1);
}

// The best extensions of a beam, best first, into choices_. A hypothesis whose distribution is not
// known is extended by guesses or not at all. Where there are guesses, a choice is the likelier to
// be beam search's own the further it lies before the first one left out: at no distance the odds
// are even, and they grow with the distance in nats.
void BeamSearch::choose(Query& query, const Beam& beam, bool guessing) {
  choices_.clear();
  bool guessed = false;
  for (size_t i = 0; i < beam.size(); ++i) {
    const BeamEntry& entry = beam[i];
    const auto rank = static_cast<int32_t>(i);
    const bool guess = !known(entry.slot).evaluated;
    // Looking ahead, what is unlikely to come by only keeps its place.
    const bool stays = entry.finished || entry.length >= options_.max_length ||
                       (guess && guessing && entry.confidence < options_.min_confidence);
    if (stays) {
      choices_.push_back({{score(entry.log_prob, entry.length), rank, BeamChoice::kCarried},
                          entry.log_prob,
                          entry.confidence,
                          entry.slot,
                          entry.length});
      continue;
    }
    if (guess && !guessing) continue;
    guessed |= guess;
    for (const Candidate& next : guess ? guesses(query, entry.slot) : known(entry.slot).best) {
      const double log_prob = entry.log_prob + static_cast<double>(next.log_prob);
      const float confidence =
          guess ? entry.confidence * std::exp(next.log_prob) : entry.confidence;
      choices_.push_back({{score(log_prob, entry.length + 1), rank, next.token},
                          log_prob,
                          confidence,
                          entry.slot,
                          entry.length + 1});
    }
  }
  // With finished_apart every hypothesis may finish, which leaves its place to another.
  const int64_t count = int64_t{options_.beam_size} * (options_.finished_apart ? 2 : 1);
  const bool contested = guessed && static_cast<int64_t>(choices_.size()) > count;
  choices_.erase(
      select_best(choices_.begin(), choices_.end(), count + (contested ? 1 : 0), better<int32_t>),
      choices_.end());
  if (!contested) return;
  const double left_out = choices_.back().score;
  choices_.pop_back();
  for (BeamChoice& choice : choices_)
    choice.confidence *= 1 - 0.5F * std::exp(static_cast<float>(left_out - choice.score));
}

// Replaces a beam by the choices made from it. With finished_apart, hypotheses that end and are
// among the first beam_size choices go to `finished`, where there is such.
void BeamSearch::extend(int32_t index, Query& query, Beam& beam, Beam* finished) {
  const int32_t eos = guess_model_->roles().special().eos;
  const auto beam_size = static_cast<size_t>(options_.beam_size);
  next_.clear();
  for (size_t rank = 0; rank < choices_.size(); ++rank) {
    const BeamChoice& choice = choices_[rank];
    const bool ends = choice.token_id == eos || choice.length == options_.max_length;
    const bool leaves = options_.finished_apart && ends;
    if (leaves ? finished == nullptr || rank >= beam_size : next_.size() == beam_size) continue;
    BeamEntry entry = beam[static_cast<size_t>(choice.parent_rank)];
    if (choice.token_id != BeamChoice::kCarried) {
      entry.finished = choice.token_id == eos;  // nothing follows EOS: it needs no node
      if (!entry.finished) entry.slot = child_or_new(index, query, choice.slot, choice.token_id);
    }
    entry.length = choice.length;
    entry.log_prob = choice.log_prob;
    entry.confidence = choice.confidence;
    if (leaves) {
      keep_finished(*finished, entry);
    } else {
      next_.push_back(entry);
    }
  }
  beam.swap(next_);
}

// The best beam_size stay; among equals, who came first.
void BeamSearch::keep_finished(Beam& finished, const BeamEntry& entry) const {
  const auto place = std::upper_bound(
      finished.begin(), finished.end(), entry,
      [this](const BeamEntry& left, const BeamEntry& right) { return score(left) > score(right); });
  finished.insert(place, entry);
  if (finished.size() > static_cast<size_t>(options_.beam_size)) finished.pop_back();
}

void BeamSearch::finish(int32_t index, Query& query, std::vector<Decoded>& done) {
  const Beam& best = options_.finished_apart ? query.finished : query.beam;
  query.decoded.hypotheses = ranked_hypotheses(tree_, best, options_.n_best);
  query.live = false;
  --live_count_;
  tree_.clear(index);
  done.push_back(std::move(query.decoded));
}

}  // namespace molspec
