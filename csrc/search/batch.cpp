#include "search/batch.h"

#include <algorithm>
#include <utility>

#include "common/require.h"

namespace molspec {

Batch::Batch(int32_t row_count, std::shared_ptr<const GuessModel> model)
    : model_(std::move(model)), tree_(std::max(row_count, 0)) {
  require(row_count >= 1, "row_count", row_count, "at least 1");
  rows_.resize(static_cast<size_t>(row_count));
}

Batch::Query& Batch::row(int32_t index) {
  require(index >= 0 && static_cast<size_t>(index) < rows_.size(), "row", index, "0 to ",
          rows_.size() - 1);
  return rows_[index];
}

void Batch::start(int32_t index, const SearchSpec& spec, const std::vector<int32_t>& source_ids,
                  uint64_t query_key) {
  Query& query = row(index);
  if (query.live) throw_invalid("row ", index, " is taken");
  if (query.spec != spec) {
    const Row row{index, &tree_, &notes_, model_};
    query.search = std::visit([&](const auto& kind) { return kind.search(row); }, spec);
    query.spec = spec;
  }
  tree_.clear_staged();
  query.search->start(source_ids, query_key);
  query.live = true;
  ++live_count_;
}

void Batch::cancel(int32_t index) {
  if (!row(index).live) throw_invalid("row ", index, " is free");
  tree_.clear_staged();
  free(index);
}

void Batch::free(int32_t index) {
  row(index).live = false;
  --live_count_;
  tree_.clear(index);
}

std::vector<Path> Batch::paths() const {
  std::vector<Path> paths;
  for (const Query& query : rows_)
    if (query.live) query.search->paths(paths);
  return paths;
}

void Batch::plan(const std::vector<DraftTree>& proposed) {
  const size_t path_count = paths().size();
  if (proposed.size() != path_count)
    throw_invalid("proposed has ", proposed.size(), " trees: expected ", path_count,
                  ", one a path");
  std::vector<DraftTree> trees;
  for (const DraftTree& tree : proposed) trees.push_back(admitted(tree, model_->roles()));
  proposed_.swap(trees);
  tree_.clear_staged();
  const DraftTree* next = proposed_.data();
  for (Query& query : rows_) {
    if (!query.live) continue;
    const size_t before = tree_.staged().size();
    query.search->plan(next);
    query.staged_count = tree_.staged().size() - before;
  }
}

std::vector<Decoded> Batch::advance(const float* log_probs, int32_t vocab_size) {
  if (tree_.staged().empty() && live_count_ > 0)
    throw_invalid("nothing is staged: expected plan() after start() and advance()");
  std::vector<Decoded> done;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i].live) continue;
    const auto index = static_cast<int32_t>(i);
    if (rows_[i].search->advance(log_probs, vocab_size)) {
      done.push_back(rows_[i].search->take());
      free(index);
    }
    log_probs += static_cast<int64_t>(rows_[i].staged_count) * vocab_size;
  }
  tree_.clear_staged();
  return done;
}

}  // namespace molspec
