#include "search/batch.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "common/require.h"

namespace molspec {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Settings& settings(const SearchSpec& spec) {
  return std::visit([](const Settings& its) -> const Settings& { return its; }, spec);
}

}  // namespace

Batch::Batch(int32_t row_count, std::shared_ptr<const GuessModel> model)
    : model_(std::move(model)), tree_(row_count), rows_(static_cast<size_t>(row_count)) {}

void Batch::start(int32_t index, const SearchSpec& spec, const std::vector<int32_t>& source_ids,
                  uint64_t query_key, const std::vector<int32_t>& prefix) {
  Query& query = checked_row(rows_, index, false);
  check_prefix(spec, prefix);
  if (query.spec != spec) {
    const Row row{index, &tree_, &notes_, model_, &ledger_};
    query.search = std::visit([&](const auto& kind) { return kind.search(row); }, spec);
    query.spec = spec;
  }
  tree_.clear_staged();
  query.search->start(source_ids, query_key, prefix);
  query.live = true;
  ++live_count_;
}

void Batch::check_prefix(const SearchSpec& spec, const std::vector<int32_t>& prefix) const {
  if (prefix.empty()) return;
  const int32_t eos = model_->roles().special().eos, longest = settings(spec).max_length - 1;
  for (const int32_t token_id : prefix)
    require(token_id >= 0 && token_id < model_->roles().vocab_size(), "a token of target_prefix",
            token_id, "0 to ", model_->roles().vocab_size() - 1);
  if (std::holds_alternative<ForcedSpec>(spec))
    throw_invalid("target_prefix is given with a target: expected one of them");
  if (std::find(prefix.begin(), prefix.end(), eos) != prefix.end())
    throw_invalid("target_prefix holds EOS ", eos, ": expected tokens before it");
  if (prefix.size() > static_cast<size_t>(longest))
    throw_invalid("target_prefix has ", prefix.size(), " tokens: expected at most ", longest,
                  ", fewer than max_length");
}

void Batch::cancel(int32_t index) {
  checked_row(rows_, index, true);
  tree_.clear_staged();
  free(index);
}

void Batch::free(int32_t index) {
  rows_[index].live = false;
  --live_count_;
  tree_.clear(index);
  if (live_count_ == 0) stored_.clear();
}

std::vector<Path> Batch::paths() const {
  std::vector<Path> paths;
  for (const Query& query : rows_) {
    if (!query.live) continue;
    for (const Head* head : query.search->waiting()) paths.push_back(query.search->path(*head));
  }
  return paths;
}

void Batch::plan(const std::vector<AdmittedTree>& proposed) {
  std::vector<DraftTree*> waiting;
  for (const Query& query : rows_) {
    if (!query.live) continue;
    for (Head* head : query.search->waiting()) waiting.push_back(&head->drafts);
  }
  fill(waiting, proposed, model_->roles());
  tree_.clear_staged();
  ledger_.step();
  for (const Query& query : rows_)
    if (query.live) query.search->plan();
}

std::vector<Decoded> Batch::advance(const float* log_probs, int32_t vocab_size) {
  if (tree_.staged().empty() && live_count_ > 0)
    throw_invalid("nothing is staged: expected plan() after start() and advance()");
  const StepLogProbs rows{tree_, by_settings(log_probs, vocab_size), vocab_size};
  std::vector<Decoded> done;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i].live || !rows_[i].search->advance(rows)) continue;
    done.push_back(take(rows_[i]));
    free(static_cast<int32_t>(i));
  }
  tree_.clear_staged();
  return done;
}

const float* Batch::by_settings(const float* log_probs, int32_t vocab_size) {
  const auto& staged = tree_.staged();
  changed_.clear();
  for (size_t i = 0; i < staged.size(); ++i) {
    const Settings& its = settings(*rows_[staged[i].memory].spec);
    const size_t begin = i * static_cast<size_t>(vocab_size);
    if (its.token_log_probs) {
      stored_.resize(static_cast<size_t>(tree_.block_count()) * kBlockPositions);
      stored_[tree_.staged_slot(i)].assign(log_probs + begin, log_probs + begin + vocab_size);
    }
    if (!its.changes_rows()) continue;
    if (changed_.empty())
      changed_.assign(log_probs, log_probs + staged.size() * static_cast<size_t>(vocab_size));
    its.change(changed_.data() + begin, staged[i].position, model_->roles().special().eos);
  }
  return changed_.empty() ? log_probs : changed_.data();
}

Decoded Batch::take(Query& query) const {
  Decoded decoded = query.search->take();
  const Settings& its = settings(*query.spec);
  std::vector<Hypothesis>& found = decoded.hypotheses;
  // A beam may have more ranks than there are tokens that it may write.
  const auto is_impossible = [](const Hypothesis& each) { return each.log_prob == -kInfinity; };
  if (its.changes_rows()) std::erase_if(found, is_impossible);
  if (its.token_log_probs && decoded.error.empty())
    for (Hypothesis& hypothesis : found) hypothesis.token_log_probs = token_log_probs(hypothesis);
  return decoded;
}

std::vector<float> Batch::token_log_probs(const Hypothesis& hypothesis) const {
  const size_t length = hypothesis.token_ids.size() + hypothesis.finished;
  std::vector<float> log_probs(length);
  int32_t token_id =
      hypothesis.finished ? model_->roles().special().eos : hypothesis.token_ids.back();
  int32_t slot = hypothesis.slot;
  for (auto each = log_probs.rbegin(); each != log_probs.rend(); ++each) {
    *each = stored_[slot][token_id];
    token_id = tree_.token_id(slot);
    slot = tree_.parent(slot);
  }
  return log_probs;
}

}  // namespace molspec
