#include "drafting/drafter.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "drafting/best_first.h"

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

// The likeliest paths of a guess. Allocates nothing once its buffers have grown.
class GuessDrafter final : public Drafter {
 public:
  GuessDrafter(const TreeOptions& options, std::shared_ptr<const GuessModel> model)
      : options_(options),
        best_first_(options.node_budget, options.min_log_prob()),
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
    states_.resize(static_cast<size_t>(options_.node_budget));
    const auto next_tokens = [this](const DraftTree& tree, int32_t node, int32_t /*depth*/) {
      if (node != DraftTree::kRoot)
        guess_.advance(state(tree.parents[node]), tree.token_ids[node], states_[node]);
      const float least = std::exp(options_.min_log_prob() - tree.log_prob(node));
      guess_.candidates(state(node), options_.node_budget, candidates_, least);
      const int32_t eos = model_->roles().special().eos;
      std::erase_if(candidates_, [&](const Candidate& next) { return next.token_id == eos; });
      return std::span(candidates_);
    };
    best_first_.draft(options_.max_depth, next_tokens, out);
  }

 private:
  const GuessState& state(int32_t node) const {
    return node == DraftTree::kRoot ? state_ : states_[node];
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
  BestFirst best_first_;
  std::shared_ptr<const GuessModel> model_;
  Guess guess_;
  std::vector<GuessState> states_;  // by node
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
