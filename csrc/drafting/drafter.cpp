#include "drafting/drafter.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace molspec {
namespace {

class NoDrafter final : public Drafter {
 public:
  void start(const int32_t* /*source_ids*/, int /*source_length*/) override {}
  void propose(const int32_t* /*token_ids*/, int /*count*/, DraftTree& out) override {
    out.clear();
  }
};

class WindowDrafter final : public Drafter {
 public:
  WindowDrafter(const WindowOptions& options, std::shared_ptr<const GuessModel> model)
      : model_(std::move(model)), windows_(options, model_->roles()) {}

  void start(const int32_t* source_ids, int source_length) override {
    windows_.start(source_ids, source_length);
  }
  void propose(const int32_t* token_ids, int count, DraftTree& out) override {
    out = windows_.after(count > 0 ? token_ids[count - 1] : model_->roles().special().bos);
  }

 private:
  std::shared_ptr<const GuessModel> model_;
  SourceWindows windows_;
};

class GuessDrafter final : public Drafter {
 public:
  GuessDrafter(const TreeOptions& options, std::shared_ptr<const GuessModel> model)
      : model_(std::move(model)), guess_(nullptr, 0, *model_), drafter_(options) {}

  void start(const int32_t* source_ids, int source_length) override {
    guess_.restart(source_ids, source_length);
    restart();
  }
  void propose(const int32_t* token_ids, int count, DraftTree& out) override {
    follow(token_ids, count);
    drafter_.propose(guess_, state_, out);
  }

 private:
  void restart() {
    path_.clear();
    guess_.start(state_);
  }
  void follow(const int32_t* token_ids, int count) {
    const bool continues = path_.size() <= static_cast<size_t>(count) &&
                           std::equal(path_.begin(), path_.end(), token_ids);
    if (!continues) restart();
    for (auto i = static_cast<int>(path_.size()); i < count; ++i) {
      guess_.advance(state_, token_ids[i], next_);
      std::swap(state_, next_);
      path_.push_back(token_ids[i]);
    }
  }

  std::shared_ptr<const GuessModel> model_;
  Guess guess_;
  TreeDrafter drafter_;
  std::vector<int32_t> path_;  // what state_ is after
  GuessState state_;
  GuessState next_;
};

struct Maker {
  const std::shared_ptr<const GuessModel>& model;

  std::unique_ptr<Drafter> operator()(const NoDraftOptions& /*options*/) const {
    return std::make_unique<NoDrafter>();
  }
  std::unique_ptr<Drafter> operator()(const WindowOptions& options) const {
    return std::make_unique<WindowDrafter>(options, model);
  }
  std::unique_ptr<Drafter> operator()(const TreeOptions& options) const {
    return std::make_unique<GuessDrafter>(options, model);
  }
  std::unique_ptr<Drafter> operator()(const OutsideOptions& /*options*/) const { return nullptr; }
};

}  // namespace

std::unique_ptr<Drafter> make_drafter(const DrafterOptions& options,
                                      std::shared_ptr<const GuessModel> model) {
  return std::visit(Maker{model}, options);
}

}  // namespace molspec
