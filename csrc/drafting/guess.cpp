#include "drafting/guess.h"

#include <algorithm>
#include <cmath>

#include "common/require.h"
#include "rules/candidate.h"

namespace molspec {
namespace {

// Without an n-gram model: the odds that a position is copied next, by its match length, against no
// copy. Fitted by expectation maximisation to 5,000 root-aligned training pairs, one half of
// USPTO-50K (reactants of products), the other of USPTO-MIT (products of reactants).
constexpr std::array<float, kSettledMatch + 1> kCopyOdds = {
    0.0F, 0.16F, 0.95F, 2.9F, 4.4F, 8.5F, 14.0F, 24.0F, 26.0F, 28.0F, 32.0F, 36.0F, 40.0F};
// The factor if the atom was copied before.
constexpr float kCopiedOdds = 0.17F;

}  // namespace

GuessModel::GuessModel(TokenRoles roles, std::shared_ptr<const NgramModel> ngram)
    : roles_(std::move(roles)), ngram_(std::move(ngram)), rewrites_(ngram_->rewrites()) {
  if (ngram_->alphabet_size() != alphabet_size())
    throw_invalid("n-gram model: its alphabet has ", ngram_->alphabet_size(), " symbols: expected ",
                  alphabet_size(), " for a vocabulary of ", roles_.vocab_size(), " tokens");
  require(ngram_->order() == Guess::kNgramOrder, "n-gram model: its order", ngram_->order(),
          Guess::kNgramOrder,
          "; delete the file, which makes drafts worse, or replace it by build_ngram");
}

GuessModel::GuessModel(TokenRoles roles, bool rewrites)
    : roles_(std::move(roles)), rewrites_(rewrites) {}

void Guess::restart(const std::vector<int32_t>& source_ids) {
  writer_.write(source_ids, model_->rewrites(), text_);
  code_of_symbol_.assign(static_cast<size_t>(model_->symbols().alphabet_size()), 0);
  codes_.clear();
  int used = 0;
  for (const int32_t symbol : text_.symbols) {
    uint8_t& code = code_of_symbol_[symbol];
    if (code == 0 && used < kNoCode - 1) {
      code = static_cast<uint8_t>(++used);
      symbol_of_code_[code] = symbol;
    }
    codes_.push_back(code == 0 ? kNoCode : code);
  }
  rules_.symbols = model_->symbols();
  rules_.text = {text_.symbols.data(),   text_.atoms.data(), codes_.data(),
                 code_of_symbol_.data(), text_.size(),       text_.source_length};
}

void Guess::start(GuessState& state) const {
  state.match_lengths.assign(codes_.size(), 0);
  state.match_lengths[0] = 1;
  state.copied.assign(static_cast<size_t>(text_.source_length) + 1, 0);
  rules_.start(state.cursor);
}

void Guess::advance(const GuessState& parent, int32_t token, GuessState& child) const {
  model_->roles().check_token(token);
  child.match_lengths.resize(codes_.size());
  child.copied.resize(parent.copied.size());
  advance_guess(HostTeam{lookup_}, rules_, view(parent), token, child.view());
}

// The view of a const state is only read.
GuessStateView Guess::view(const GuessState& state) {
  return const_cast<GuessState&>(state).view();
}

GuessContext Guess::context(const GuessState& state) const {
  GuessContext context;
  rules_.context(view(state), context.data());
  return context;
}

int32_t Guess::observed_symbol(const GuessState& state, int32_t token) const {
  const int32_t symbol = rules_.symbols.symbol(token, state.cursor.rings);
  const int32_t at = text_.symbols[state.cursor.copy_point];
  return symbol == at ? rules_.copy_symbol() : symbol;
}

int Guess::find_symbols(const GuessState& state) const {
  const NgramTable ngram = model_->ngram()->table();
  GuessContext context;
  return guess_symbols(HostTeam{lookup_}, rules_, ngram, view(state), context.data());
}

int Guess::find_copies(const GuessState& state) const {
  // The probability that is not copied is spread over at least the source's symbols.
  const float share = 1.0F / static_cast<float>(codes_.size());
  code_odds_.fill(0.0F);
  for (const uint8_t code : codes_) code_odds_[code] += share;
  float total = 1.0F;
  for (size_t position = 0; position < codes_.size(); ++position) {
    if (state.match_lengths[position] == 0) continue;
    const int match = std::min<int>(state.match_lengths[position], kSettledMatch);
    const bool copied = state.copied[text_.atoms[position]] != 0;
    const float odds = kCopyOdds[match] * (copied ? kCopiedOdds : 1.0F);
    code_odds_[codes_[position]] += odds;
    total += odds;
  }
  lookup_.found.clear();
  for (size_t code = 1; code < kNoCode; ++code) {
    if (code_odds_[code] == 0) continue;
    lookup_.found.push_back({symbol_of_code_[code], code_odds_[code] / total});
  }
  return static_cast<int>(lookup_.found.size());
}

void Guess::candidates(const GuessState& state, int limit, std::vector<Candidate>& out,
                       float least) const {
  const int count = model_->ngram() != nullptr ? find_symbols(state) : find_copies(state);
  float total = 1.0F;
  out.clear();
  for (int i = 0; i < count; ++i) {
    const WeighedToken token = rules_.weigh(lookup_.found[i], state.cursor);
    total -= token.lost;
    if (token.token != SymbolTable::kNoToken) out.push_back({token.token, token.probability});
  }
  // Most are unlikely: not to sort them takes a seventh off a draft. The margin is for rounding.
  std::erase_if(out, [&](const Candidate& next) { return next.log_prob < 0.999F * least * total; });
  keep_best(out, limit, likelier);
  for (Candidate& candidate : out) candidate.log_prob = std::log(candidate.log_prob / total);
}

}  // namespace molspec
