#include "drafting/drafter.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace molspec {
namespace {

class NoDrafter final : public Drafter {
 public:
  void start(const std::vector<int32_t>& /*source_ids*/) override {}
  void propose(const std::vector<int32_t>& /*token_ids*/, DraftTree& out) override { out.clear(); }
};

class WindowDrafter final : public Drafter {
 public:
  WindowDrafter(const WindowOptions& options, std::shared_ptr<const GuessModel> model)
      : options_(options), model_(std::move(model)) {}

  void start(const std::vector<int32_t>& source_ids) override {
    model_->roles().check_tokens(source_ids);
    source_ids_ = source_ids;
    if (!options_.smart) draft_windows(source_ids_, kAnyToken, model_->roles(), options_, tree_);
  }
  void propose(const std::vector<int32_t>& token_ids, DraftTree& out) override {
    const TokenRoles& roles = model_->roles();
    const int32_t last_token = token_ids.empty() ? roles.special().bos : token_ids.back();
    if (options_.smart) draft_windows(source_ids_, last_token, roles, options_, tree_);
    out = tree_;
  }

 private:
  WindowOptions options_;
  std::shared_ptr<const GuessModel> model_;
  std::vector<int32_t> source_ids_;
  DraftTree tree_;
};

// Best-first expansion of a guess. Allocates nothing once its buffers have grown.
class GuessDrafter final : public Drafter {
 public:
  GuessDrafter(const TreeOptions& options, std::shared_ptr<const GuessModel> model)
      : options_(options),
        min_log_prob_(options.min_log_prob()),
        model_(std::move(model)),
        guess_(*model_) {
    restart();
  }

  void start(const std::vector<int32_t>& source_ids) override {
    guess_.restart(source_ids);
    restart();
  }

  void propose(const std::vector<int32_t>& token_ids, DraftTree& out) override {
    follow(token_ids);
    out.clear();
    heap_.clear();
    depths_.clear();
    states_.resize(static_cast<size_t>(options_.node_budget));
    expand(state_, DraftTree::kRoot, 0);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), worse);
      const Entry entry = heap_.back();
      heap_.pop_back();
      const int32_t node = out.add(entry.token, entry.parent, entry.log_prob);
      if (out.size() >= options_.node_budget) return;
      const bool at_root = entry.parent == DraftTree::kRoot;
      depths_.push_back(at_root ? 1 : depths_[entry.parent] + 1);
      if (depths_.back() == options_.max_depth) continue;
      const GuessState& parent = at_root ? state_ : states_[entry.parent];
      GuessState& child = states_[node];
      guess_.advance(parent, entry.token, child);
      expand(child, node, entry.log_prob);
    }
  }

 private:
  struct Entry {  // a candidate node
    float log_prob;
    int32_t parent;
    int32_t token;
  };
  static bool worse(const Entry& left, const Entry& right) {
    if (left.log_prob != right.log_prob) return left.log_prob < right.log_prob;
    if (left.parent != right.parent) return left.parent > right.parent;
    return left.token > right.token;
  }
  void expand(const GuessState& state, int32_t node, float log_prob) {
    guess_.candidates(state, options_.node_budget, candidates_);
    const int32_t eos = model_->roles().special().eos;
    for (const Candidate& candidate : candidates_) {
      const float path = log_prob + candidate.log_prob;
      if (path < min_log_prob_) break;
      if (candidate.token == eos) continue;
      heap_.push_back({path, node, candidate.token});
      std::push_heap(heap_.begin(), heap_.end(), worse);
    }
  }
  void restart() {
    path_.clear();
    guess_.start(state_);
  }
  void follow(const std::vector<int32_t>& token_ids) {
    const bool continues = path_.size() <= token_ids.size() &&
                           std::equal(path_.begin(), path_.end(), token_ids.begin());
    if (!continues) restart();
    for (size_t i = path_.size(); i < token_ids.size(); ++i) {
      guess_.advance(state_, token_ids[i], next_);
      std::swap(state_, next_);
      path_.push_back(token_ids[i]);
    }
  }

  TreeOptions options_;
  float min_log_prob_;
  std::shared_ptr<const GuessModel> model_;
  Guess guess_;
  std::vector<Entry> heap_;
  std::vector<GuessState> states_;  // by node
  std::vector<int> depths_;         // by node
  std::vector<Candidate> candidates_;
  std::vector<int32_t> path_;  // the path of state_
  GuessState state_;
  GuessState next_;
};

}  // namespace

std::unique_ptr<Drafter> make_drafter(const DrafterOptions& options,
                                      std::shared_ptr<const GuessModel> model) {
  if (const auto* windows = std::get_if<WindowOptions>(&options))
    return std::make_unique<WindowDrafter>(*windows, std::move(model));
  if (const auto* tree = std::get_if<TreeOptions>(&options))
    return std::make_unique<GuessDrafter>(*tree, std::move(model));
  if (std::holds_alternative<NoDraftOptions>(options)) return std::make_unique<NoDrafter>();
  return nullptr;
}

}  // namespace molspec
