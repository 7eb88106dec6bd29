#include "text/guess.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace molspec {
namespace {

// Left out of the candidates: what is less likely than this, all together.
constexpr float kFloor = 2e-2F;

// A token that would unbalance parentheses or rings is that much less likely than the n-gram model,
// which cannot count, believes.
constexpr float kUnbalanced = 0.02F;

// Where to copy from, in units of matching symbols: longer matches first, up to a length that
// settles it; atoms that were copied before are copied again only in return for a much longer
// match; the source as given comes before its rewritings.
constexpr int kUnit = 8;
constexpr int kSettledMatch = 12;
constexpr int kCopiedPenalty = 5 * kUnit;
constexpr int kRewrittenPenalty = kUnit / 2;
constexpr int kStayBonus = 1;
// Where a jump is expected, that counts like so many matching symbols.
constexpr uint8_t kExpectedMatch = 4;

// Positions that are passed over at once, in few vector instructions, where none matches enough.
constexpr size_t kBlock = 64;

int longest(const uint8_t* matches, size_t count) {
  uint8_t result = 0;
  for (size_t i = 0; i < count; ++i) result = std::max(result, matches[i]);
  return result;
}

// Classes of match lengths for the n-gram model: 0, 1, 2, 3, 4-5, 6-8, 9-13, 14 and more.
int match_class(int length) {
  if (length < 4) return length;
  if (length < 6) return 4;
  if (length < 9) return 5;
  return length < 14 ? 6 : 7;
}
constexpr int kMatchClasses = 8;
constexpr int kMaxUncopied = 7;

// Without an n-gram model: odds that a position is copied next, by its match length, against all
// that is no copy. Fitted by expectation maximisation to 5,000 root-aligned training pairs, one
// half of USPTO-50K (reactants of products), one of USPTO-MIT (products of reactants).
constexpr std::array<float, kSettledMatch + 1> kCopyOdds = {
    0.0F, 0.16F, 0.95F, 2.9F, 4.4F, 8.5F, 14.0F, 24.0F, 26.0F, 28.0F, 32.0F, 36.0F, 40.0F};
// Times that, where the atom was copied before.
constexpr float kCopiedOdds = 0.17F;

}  // namespace

GuessModel::GuessModel(TokenRoles roles, std::shared_ptr<const NgramModel> ngram)
    : roles_(std::move(roles)),
      symbols_(roles_),
      ngram_(std::move(ngram)),
      rewrites_(ngram_->rewrites()) {
  if (ngram_->alphabet_size() != alphabet_size(symbols_)) {
    throw std::invalid_argument("n-gram model: its alphabet has " +
                                std::to_string(ngram_->alphabet_size()) + " symbols: expected " +
                                std::to_string(alphabet_size(symbols_)) + " for a vocabulary of " +
                                std::to_string(roles_.vocab_size()) + " tokens");
  }
  if (ngram_->order() != Guess::kNgramOrder) {
    throw std::invalid_argument("n-gram model: its order is " + std::to_string(ngram_->order()) +
                                ": expected " + std::to_string(Guess::kNgramOrder));
  }
}

GuessModel::GuessModel(TokenRoles roles, bool rewrites)
    : roles_(std::move(roles)), symbols_(roles_), rewrites_(rewrites) {}

Guess::Guess(const int32_t* source_ids, int source_length, const GuessModel& model)
    : model_(&model), writer_(model.roles(), model.symbols()) {
  restart(source_ids, source_length);
}

void Guess::restart(const int32_t* source_ids, int source_length) {
  writer_.write(source_ids, source_length, model_->rewrites(), text_);
  atom_count_ =
      static_cast<int>(std::count_if(source_ids, source_ids + source_length, [this](int32_t token) {
        return model_->roles().kind(token) == TokenKind::kAtom;
      }));
  code_of_symbol_.assign(static_cast<size_t>(model_->symbols().alphabet_size()), 0);
  codes_.clear();
  int used = 0;
  for (const int32_t symbol : text_.symbols) {
    uint8_t& code = code_of_symbol_[static_cast<size_t>(symbol)];
    // A 256th symbol in one query is never matched.
    if (code == 0 && used < 255) {
      code = static_cast<uint8_t>(++used);
      symbol_of_code_[code] = symbol;
    }
    codes_.push_back(code);
  }
}

void Guess::start(GuessState& state) const {
  state.match_lengths.assign(codes_.size(), 0);
  state.match_lengths[0] = 1;
  state.copied.assign(static_cast<size_t>(text_.source_length) + 1, 0);
  state.uncopied_count = atom_count_;
  state.copy_point = 0;
  state.history.fill(model_->roles().special().bos);
  state.rings.count = 0;
  state.open_parentheses = 0;
}

void Guess::advance(const GuessState& parent, int32_t token, GuessState& child) const {
  const TokenRoles& roles = model_->roles();
  roles.check_token(token);
  const int32_t symbol = model_->symbols().symbol(token, parent.rings);
  const uint8_t code = code_of_symbol_[static_cast<size_t>(symbol)];
  const size_t size = codes_.size();
  child.match_lengths.resize(size);
  const uint8_t* __restrict codes = codes_.data();
  const uint8_t* __restrict before = parent.match_lengths.data();
  uint8_t* __restrict after = child.match_lengths.data();
  after[0] = 0;
  for (size_t p = 0; p + 1 < size; ++p) {
    const auto longer = static_cast<uint8_t>(before[p] + (before[p] != 255));
    after[p + 1] = codes[p] == code ? longer : uint8_t{0};
  }
  child.copied = parent.copied;
  child.uncopied_count = parent.uncopied_count;
  child.copy_point = parent.copy_point;
  if (text_symbol(parent.copy_point) == symbol && parent.copy_point != text_.source_length) {
    mark_copied(parent.copy_point, child);
    ++child.copy_point;
  }
  child.history[0] = symbol;
  std::copy(parent.history.begin(), parent.history.end() - 1, child.history.begin() + 1);
  child.rings = parent.rings;
  model_->symbols().advance(token, child.rings);
  const TokenKind kind = roles.kind(token);
  child.open_parentheses =
      parent.open_parentheses + (kind == TokenKind::kOpen) - (kind == TokenKind::kClose);
  expect_jump(parent, token, child);
  choose_copy_point(child);
}

// Two places to go on copying that no matching symbols tell: behind ".", the first atom that is not
// yet copied; behind a branch closed earlier than its original, the end of the original.
void Guess::expect_jump(const GuessState& parent, int32_t token, GuessState& child) const {
  const TokenKind kind = model_->roles().kind(token);
  if (kind == TokenKind::kDot) {
    for (int32_t position = 0; position < text_.source_length; ++position) {
      if (text_kind(position) != TokenKind::kAtom) continue;
      if (child.copied[static_cast<size_t>(position)] != 0) continue;
      expect(position, child);
      return;
    }
  } else if (kind == TokenKind::kClose && child.copy_point == parent.copy_point) {
    int depth = 1;
    for (int32_t position = parent.copy_point; text_kind(position) != TokenKind::kOther;
         ++position) {
      depth += (text_kind(position) == TokenKind::kOpen);
      depth -= (text_kind(position) == TokenKind::kClose);
      if (depth > 0) continue;
      expect(position + 1, child);
      return;
    }
  }
}

void Guess::expect(int32_t position, GuessState& state) const {
  uint8_t& match = state.match_lengths[static_cast<size_t>(position)];
  match = std::max<uint8_t>(match, kExpectedMatch);
}

// kOther behind the end of the source and of every rewriting; ring symbols are digits.
TokenKind Guess::text_kind(int32_t position) const {
  const int32_t symbol = text_symbol(position);
  const TokenRoles& roles = model_->roles();
  return symbol < roles.vocab_size() ? roles.kind(symbol) : TokenKind::kRing;
}

int32_t Guess::text_symbol(int32_t position) const {
  return text_.symbols[static_cast<size_t>(position)];
}

void Guess::mark_copied(int32_t position, GuessState& state) const {
  if (text_kind(position) != TokenKind::kAtom) return;
  uint8_t& copied = state.copied[static_cast<size_t>(text_.atoms[static_cast<size_t>(position)])];
  state.uncopied_count -= 1 - copied;
  copied = 1;
}

int Guess::copy_score(const GuessState& state, int32_t position) const {
  const auto index = static_cast<size_t>(position);
  const int match = std::min<int>(state.match_lengths[index], kSettledMatch);
  const bool copied = state.copied[static_cast<size_t>(text_.atoms[index])] != 0;
  const bool rewritten = position > text_.source_length;
  return kUnit * match - (copied ? kCopiedPenalty : 0) - (rewritten ? kRewrittenPenalty : 0);
}

void Guess::choose_copy_point(GuessState& state) const {
  int best = copy_score(state, state.copy_point) + kStayBonus;
  // While a copy goes on, no other position can be better: the usual case costs nothing.
  if (best >= kUnit * kSettledMatch) return;
  const std::vector<uint8_t>& matches = state.match_lengths;
  for (size_t begin = 0; begin < matches.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, matches.size());
    if (kUnit * longest(matches.data() + begin, end - begin) <= best) continue;
    for (size_t position = begin; position < end; ++position) {
      if (kUnit * matches[position] <= best) continue;
      const int score = copy_score(state, static_cast<int32_t>(position));
      if (score <= best) continue;
      best = score;
      state.copy_point = static_cast<int32_t>(position);
    }
  }
}

GuessContext Guess::context(const GuessState& state) const {
  const auto ahead = [&](int32_t distance) {
    const auto position = static_cast<size_t>(state.copy_point + distance);
    return position < text_.symbols.size() ? text_.symbols[position]
                                           : model_->roles().special().pad;
  };
  const auto& past = state.history;
  const int match = state.match_lengths[static_cast<size_t>(state.copy_point)];
  const bool rewritten = state.copy_point > text_.source_length;
  const int copying = match_class(match) + (rewritten ? kMatchClasses : 0);
  const int uncopied = std::min(state.uncopied_count, kMaxUncopied);
  return {ahead(3), ahead(2), ahead(1), past[6], past[5],  past[4], past[3],
          uncopied, past[2],  past[1],  copying, ahead(0), past[0]};
}

int32_t Guess::observed_symbol(const GuessState& state, int32_t token) const {
  const int32_t symbol = model_->symbols().symbol(token, state.rings);
  return symbol == text_symbol(state.copy_point) ? model_->copy_symbol() : symbol;
}

std::optional<int32_t> Guess::possible_token(int32_t symbol, const GuessState& state) const {
  const RingSymbols& symbols = model_->symbols();
  const std::optional<int32_t> token = symbols.token(symbol, state.rings);
  if (!token) return std::nullopt;
  const TokenRoles& roles = model_->roles();
  if (roles.is_special(*token) && *token != roles.special().eos) return std::nullopt;
  // A digit that opens with another number than the lowest free is its own symbol only then.
  const bool digit = symbol == *token && roles.kind(*token) == TokenKind::kRing;
  if (digit && symbols.symbol(*token, state.rings) != symbol) return std::nullopt;
  return token;
}

bool Guess::balanced(int32_t token, const GuessState& state) const {
  const TokenRoles& roles = model_->roles();
  const TokenKind kind = roles.kind(token);
  if (kind == TokenKind::kClose) return state.open_parentheses > 0;
  if (kind == TokenKind::kDot || token == roles.special().eos) {
    return state.open_parentheses == 0 && state.rings.count == 0;
  }
  return true;
}

void Guess::find_symbols(const GuessState& state) const {
  const GuessContext here = context(state);
  model_->ngram()->lookup(here.data(), static_cast<int>(here.size()), kFloor, lookup_);
  std::vector<SymbolProbability>& found = lookup_.found;
  const auto is = [](int32_t symbol) {
    return [symbol](const SymbolProbability& entry) { return entry.symbol == symbol; };
  };
  const auto copy = std::find_if(found.begin(), found.end(), is(model_->copy_symbol()));
  if (copy == found.end()) return;
  const int32_t symbol = text_symbol(state.copy_point);
  const auto same = std::find_if(found.begin(), found.end(), is(symbol));
  if (same != found.end()) {
    same->probability += copy->probability;
    found.erase(copy);
  } else {
    copy->symbol = symbol;
  }
}

void Guess::find_copies(const GuessState& state) const {
  // What is not copied from where the path seems to be has at least the source's symbols.
  const float share = 1.0F / static_cast<float>(codes_.size());
  code_odds_.fill(0.0F);
  for (const uint8_t code : codes_) code_odds_[code] += share;
  float total = 1.0F;
  for (size_t position = 0; position < codes_.size(); ++position) {
    if (state.match_lengths[position] == 0) continue;
    const int match = std::min<int>(state.match_lengths[position], kSettledMatch);
    const bool copied = state.copied[static_cast<size_t>(text_.atoms[position])] != 0;
    const float odds = kCopyOdds[static_cast<size_t>(match)] * (copied ? kCopiedOdds : 1.0F);
    code_odds_[codes_[position]] += odds;
    total += odds;
  }
  lookup_.found.clear();
  for (size_t code = 1; code < code_odds_.size(); ++code) {
    if (code_odds_[code] == 0) continue;
    lookup_.found.push_back({symbol_of_code_[code], code_odds_[code] / total});
  }
}

void Guess::candidates(const GuessState& state, int limit, std::vector<Candidate>& out) const {
  if (model_->ngram() != nullptr) {
    find_symbols(state);
  } else {
    find_copies(state);
  }
  float total = 1.0F;
  out.clear();
  for (const SymbolProbability& found : lookup_.found) {
    const std::optional<int32_t> token = possible_token(found.symbol, state);
    if (!token) {
      total -= found.probability;
      continue;
    }
    const float weight = balanced(*token, state) ? 1.0F : kUnbalanced;
    total -= found.probability * (1.0F - weight);
    out.push_back({*token, found.probability * weight});
  }
  const auto better = [](const Candidate& left, const Candidate& right) {
    return left.log_prob != right.log_prob ? left.log_prob > right.log_prob
                                           : left.token < right.token;
  };
  const auto keep = static_cast<std::ptrdiff_t>(std::min(out.size(), static_cast<size_t>(limit)));
  std::partial_sort(out.begin(), out.begin() + keep, out.end(), better);
  out.resize(static_cast<size_t>(keep));
  for (Candidate& candidate : out) candidate.log_prob = std::log(candidate.log_prob / total);
}

}  // namespace molspec
