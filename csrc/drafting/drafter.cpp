#include "drafting/drafter.h"

#include <utility>

namespace molspec {
namespace {

class NoDrafter final : public Drafter {
 public:
  void start(const int32_t* /*source_ids*/, int /*source_length*/) override {}
  void propose(DraftTree& out) override { out.clear(); }
  void advance(const int32_t* /*token_ids*/, int /*count*/) override {}
};

class WindowDrafter final : public Drafter {
 public:
  WindowDrafter(const WindowOptions& options, std::shared_ptr<const GuessModel> model)
      : model_(std::move(model)), trees_(options, model_->roles()) {}

  void start(const int32_t* source_ids, int source_length) override {
    trees_.start(source_ids, source_length);
    last_token_ = model_->roles().special().bos;
  }

  void propose(DraftTree& out) override { out = trees_.behind(last_token_); }

  void advance(const int32_t* token_ids, int count) override {
    if (count > 0) last_token_ = token_ids[count - 1];
  }

 private:
  std::shared_ptr<const GuessModel> model_;
  SourceWindows trees_;
  int32_t last_token_ = 0;
};

class GuessDrafter final : public Drafter {
 public:
  GuessDrafter(const TreeOptions& options, std::shared_ptr<const GuessModel> model)
      : model_(std::move(model)), guess_(nullptr, 0, *model_), drafter_(options) {}

  void start(const int32_t* source_ids, int source_length) override {
    guess_.restart(source_ids, source_length);
    guess_.start(state_);
  }

  void propose(DraftTree& out) override { drafter_.propose(guess_, state_, out); }

  void advance(const int32_t* token_ids, int count) override {
    for (int i = 0; i < count; ++i) {
      guess_.advance(state_, token_ids[i], next_);
      std::swap(state_, next_);
    }
  }

 private:
  std::shared_ptr<const GuessModel> model_;
  Guess guess_;
  TreeDrafter drafter_;
  GuessState state_;
  GuessState next_;
};

std::unique_ptr<Drafter> make_drafter(const DrafterOptions& options,
                                      const std::shared_ptr<const GuessModel>& model) {
  if (const auto* windows = std::get_if<WindowOptions>(&options)) {
    return std::make_unique<WindowDrafter>(*windows, model);
  }
  if (const auto* tree = std::get_if<TreeOptions>(&options)) {
    return std::make_unique<GuessDrafter>(*tree, model);
  }
  return std::make_unique<NoDrafter>();
}

}  // namespace

DrafterFactory::DrafterFactory(DrafterOptions options, std::shared_ptr<const GuessModel> model)
    : options_(options), model_(std::move(model)) {
  if (const auto* windows = std::get_if<WindowOptions>(&options_)) check(*windows);
  if (const auto* tree = std::get_if<TreeOptions>(&options_)) check(*tree);
}

std::unique_ptr<Drafter> DrafterFactory::start(const int32_t* source_ids, int source_length) const {
  std::unique_ptr<Drafter> drafter = make_drafter(options_, model_);
  drafter->start(source_ids, source_length);
  return drafter;
}

}  // namespace molspec
