#include "text/guess.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace molspec {
namespace {

// How much likelier a copy point makes its symbol, by the length of its match.
constexpr std::array<float, 13> kCopyWeights = {0.5F, 1.0F, 3.0F,  8.0F,  15.0F, 25.0F, 40.0F,
                                                60.F, 80.F, 100.F, 120.F, 150.F, 200.F};

}  // namespace

GuessModel::GuessModel(TokenRoles roles, std::shared_ptr<const NgramModel> ngram)
    : roles_(std::move(roles)), symbols_(roles_), ngram_(std::move(ngram)) {
  if (ngram_ && ngram_->alphabet_size() != symbols_.alphabet_size()) {
    throw std::invalid_argument("n-gram model: its alphabet has " +
                                std::to_string(ngram_->alphabet_size()) + " symbols: expected " +
                                std::to_string(symbols_.alphabet_size()) + " for this vocabulary");
  }
}

Guess::Guess(const int32_t* source_ids, int source_length, const GuessModel& model)
    : model_(&model) {
  restart(source_ids, source_length);
}

void Guess::restart(const int32_t* source_ids, int source_length) {
  const RingSymbols& symbols = model_->symbols();
  const size_t alphabet = static_cast<size_t>(symbols.alphabet_size());
  scores_.resize(alphabet);
  prior_.resize(alphabet);
  source_symbols_.clear();
  OpenRings rings;
  for (int i = 0; i < source_length; ++i) {
    model_->roles().check_token(source_ids[i]);
    source_symbols_.push_back(symbols.symbol(source_ids[i], rings));
    symbols.advance(source_ids[i], rings);
  }
  source_symbols_.push_back(model_->roles().special().eos);
}

void Guess::start(GuessState& state) const {
  state.match_lengths.assign(source_symbols_.size(), 0);
  state.match_lengths[0] = 1;
  state.context[0] = model_->roles().special().bos;
  state.context_length = 1;
  state.open_parentheses = 0;
  state.rings.count = 0;
}

void Guess::advance(const GuessState& parent, int32_t token, GuessState& child) const {
  model_->roles().check_token(token);
  const RingSymbols& symbols = model_->symbols();
  const int32_t symbol = symbols.symbol(token, parent.rings);
  const size_t size = source_symbols_.size();
  child.match_lengths.resize(size);
  child.match_lengths[0] = 0;
  for (size_t p = 0; p + 1 < size; ++p) {
    const int longer = std::min(parent.match_lengths[p] + 1, 255);
    child.match_lengths[p + 1] = source_symbols_[p] == symbol ? static_cast<uint8_t>(longer) : 0;
  }
  child.context = parent.context;
  child.context_length = parent.context_length;
  if (child.context_length == static_cast<int>(child.context.size())) {
    std::copy(parent.context.begin() + 1, parent.context.end(), child.context.begin());
    --child.context_length;
  }
  child.context[static_cast<size_t>(child.context_length++)] = symbol;
  child.open_parentheses = parent.open_parentheses;
  child.rings = parent.rings;
  symbols.advance(token, child.rings);
}

void Guess::candidates(const GuessState& state, int limit, std::vector<Candidate>& out) const {
  const RingSymbols& symbols = model_->symbols();
  const TokenRoles& roles = model_->roles();
  if (model_->ngram() != nullptr) {
    model_->ngram()->distribution(state.context.data(), state.context_length, prior_.data());
  } else {
    std::fill(prior_.begin(), prior_.end(), 1.0F / static_cast<float>(prior_.size()));
  }
  std::fill(scores_.begin(), scores_.end(), 1.0F);
  for (size_t p = 0; p < source_symbols_.size(); ++p) {
    const size_t length = std::min<size_t>(state.match_lengths[p], kCopyWeights.size() - 1);
    scores_[static_cast<size_t>(source_symbols_[p])] += kCopyWeights[length];
  }
  out.clear();
  float total = 0;
  for (int32_t symbol = 0; symbol < symbols.alphabet_size(); ++symbol) {
    const float score = prior_[static_cast<size_t>(symbol)] * scores_[static_cast<size_t>(symbol)];
    if (score <= 0) continue;
    total += score;
    const std::optional<int32_t> token = symbols.token(symbol, state.rings);
    if (!token || (roles.is_special(*token) && *token != roles.special().eos)) continue;
    out.push_back({*token, score});
  }
  // Ranked by score; only what is kept is worth a logarithm.
  const auto better = [](const Candidate& left, const Candidate& right) {
    return left.log_prob != right.log_prob ? left.log_prob > right.log_prob
                                           : left.token < right.token;
  };
  const auto keep = std::min(out.size(), static_cast<size_t>(limit));
  std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(keep), out.end(),
                    better);
  out.resize(keep);
  for (Candidate& candidate : out) candidate.log_prob = std::log(candidate.log_prob / total);
}

}  // namespace molspec
