// Stochastic beam search: Kool, van Hoof and Welling, ICML 2019, "Stochastic beams and where to
// find them". Beam search on log-probs with Gumbel noise gives samples without replacement.
//
// A hypothesis' noisy log-prob is the maximum over all sequences that begin with it: the noise of
// its extensions is drawn on the condition that their maximum is the hypothesis' own. So an
// extension never ranks above its hypothesis, which is all that exact replay needs (rules/beam.h),
// and the lookahead guesses with the same noise. The beam holds one hypothesis more than the
// samples; its score gives the inclusion probability of each sample.
//
// In the lists, BeamEntry::log_prob is the noisy log-prob; BeamNotes has the path's own.

#include <algorithm>
#include <cmath>
#include <limits>

#include "search/beam.h"

namespace molspec {
namespace {

// log(1 + exp(-value)) for a value of at least 0.
double log_1p_exp(double value) {
  const double odds = fixed_exp(-value);
  return odds < 1e-5 ? odds * (1 - odds / 2) : fixed_log(1 + odds);
}

// `noisy`, whose group has the maximum `greatest`, on the condition that the maximum is `given`
// (appendix B).
double conditional(double noisy, double greatest, double given) {
  if (noisy == greatest) return given;
  const double v = given - noisy + fixed_log_1m_exp(noisy - greatest);
  return given - std::max(0.0, v) - log_1p_exp(std::abs(v));
}

// The probability that noise lifts a sequence above a threshold.
double inclusion(double drawn_log_prob, double threshold) {
  const double rate = fixed_exp(std::min(drawn_log_prob - threshold, 7.0));
  return rate < 1e-5 ? rate * (1 - rate / 2) : 1 - fixed_exp(-rate);
}

bool noisier(const NoisyToken& left, const NoisyToken& right) {
  return left.noisy != right.noisy ? left.noisy > right.noisy : left.token_id < right.token_id;
}

class StochasticBeamSearch final : public BeamSearch {
 public:
  using BeamSearch::BeamSearch;

  void begin(const std::vector<int32_t>& source_ids) override {
    BeamSearch::begin(source_ids);
    set_log_prob(0);
  }

 private:
  // A path that all samples share is drawn for certain.
  void set_log_prob(double /*own*/) override {
    lists_.beam.front().log_prob = of_query().after(0, 1).gumbel(0, 0);
  }
  void remember(int32_t slot, const float* log_probs, int32_t vocab_size) override {
    Note& node = note(slot);
    node.noise = noise(slot);
    node.log_probs = path_log_probs(slot);
    tempered(log_probs, vocab_size, sampling(), tempered_);
    node.noisy.clear();
    for (const Tempered& token : tempered_) {
      const double noise = node.noise.gumbel(0, static_cast<uint32_t>(token.token_id));
      node.noisy.push_back({token.token_id, token.drawn_log_prob, token.drawn_log_prob + noise});
    }
    keep_best(node.noisy, width(), noisier);
    node.best.clear();
    for (const NoisyToken& token : node.noisy)
      node.best.push_back({token.token_id, log_probs[token.token_id]});
  }
  void add_choices(BeamLists& lists, int32_t rank, bool guessed) override {
    const BeamEntry entry = lists.beam[rank];
    if (guessed) guess(entry.node);
    const std::vector<NoisyToken>& tokens = note(entry.node).noisy;
    if (tokens.empty()) return;
    const double before = drawn_log_prob(entry.node);
    const double greatest = before + tokens.front().noisy;
    // The noise is known: the choice is as certain as the guess.
    const float sure = guessed ? std::exp(guesses(entry.node).front().log_prob) : 1;
    for (const NoisyToken& token : tokens) {
      const double noisy = conditional(before + token.noisy, greatest, entry.log_prob);
      lists.choices.push_back({{noisy, rank, token.token_id}, noisy, entry.confidence * sure});
    }
  }
  double own_log_prob(const BeamEntry& entry) const override {
    return path_log_probs(entry.node).own;
  }
  void finish() override {
    const int32_t count = std::min(lists_.count, spec_.n_best);
    const double threshold = lists_.count > count ? lists_.beam[count].log_prob
                                                  : -std::numeric_limits<double>::infinity();
    for (int32_t rank = 0; rank < count; ++rank) {
      const BeamEntry& entry = lists_.beam[rank];
      const int32_t last = entry.node;
      const PathLogProbs path = entry.finished ? after(last, row_.eos()) : path_log_probs(last);
      decoded_.hypotheses.push_back(hypothesis(*row_.tree, entry, path.own));
      decoded_.hypotheses.back().inclusion = inclusion(path.drawn, threshold);
    }
  }

  const Sampling& sampling() const { return *spec_.sampling; }
  Noise of_query() const { return Noise::of(sampling().seed, query_key_).after(0, 1); }
  // Depends on the path alone, so that every round and hypothesis draws the same.
  Noise noise(int32_t slot) const {
    const int32_t parent = row_.tree->parent(slot);
    if (parent == TokenTree::kNone) return of_query();
    const Noise before = note(parent).evaluated ? note(parent).noise : noise(parent);
    return before.after(static_cast<uint32_t>(row_.tree->token_id(slot)));
  }
  // The log-probs of a path that extends an evaluated node by one of its best tokens.
  PathLogProbs after(int32_t slot, int32_t token_id) const {
    const Note& node = note(slot);
    for (size_t i = 0; i < node.noisy.size(); ++i)
      if (node.noisy[i].token_id == token_id)
        return {node.log_probs.drawn + node.noisy[i].drawn_log_prob,
                node.log_probs.own + static_cast<double>(node.best[i].log_prob)};
    return {};  // a draft that no hypothesis reaches
  }
  // The log-probs of the path to a node after an evaluated one, or to the root.
  PathLogProbs path_log_probs(int32_t slot) const {
    if (note(slot).evaluated) return note(slot).log_probs;
    if (slot == root_) return {0, prefix_log_prob_};
    return after(row_.tree->parent(slot), row_.tree->token_id(slot));
  }
  // The drawn log-prob of the path to a node; guessed for nodes that are not evaluated.
  double drawn_log_prob(int32_t slot) {
    const int32_t parent = row_.tree->parent(slot);
    if (slot == root_ || note(parent).evaluated) return path_log_probs(slot).drawn;
    guess(parent);
    for (const NoisyToken& token : note(parent).noisy)
      if (token.token_id == row_.tree->token_id(slot))
        return drawn_log_prob(parent) + token.drawn_log_prob;
    return drawn_log_prob(parent);
  }
  // Guesses the tokens after a node, with the noise that they will have.
  void guess(int32_t slot) {
    const std::vector<Candidate>& tokens = guesses(slot);
    Note& node = note(slot);
    const Noise own = noise(slot);
    node.noisy.clear();
    double total = 0;
    for (const Candidate& token : tokens)
      total += fixed_exp(static_cast<double>(token.log_prob) / sampling().temperature);
    const double norm = total > 0 ? fixed_log(total) : 0;
    for (const Candidate& token : tokens) {
      const double log_prob = static_cast<double>(token.log_prob) / sampling().temperature - norm;
      node.noisy.push_back(
          {token.token, log_prob, log_prob + own.gumbel(0, static_cast<uint32_t>(token.token))});
    }
    std::sort(node.noisy.begin(), node.noisy.end(), noisier);
  }

  std::vector<Tempered> tempered_;  // scratch
};

}  // namespace

std::unique_ptr<Search> BeamSpec::search(const Row& row) const {
  if (sampling) return std::make_unique<StochasticBeamSearch>(*this, row);
  return std::make_unique<BeamSearch>(*this, row);
}

}  // namespace molspec
