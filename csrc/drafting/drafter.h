// Proposes what the model may say next. One object a query, made by a factory a loaded model.

#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "drafting/draft_tree.h"
#include "drafting/guess.h"
#include "drafting/windows.h"

namespace molspec {

// One thread at a time. A drafter's trees depend on its query and its generated tokens alone.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Begins a query: nothing generated but BOS. source_ids without BOS and EOS. May be called again.
  virtual void start(const int32_t* source_ids, int source_length) = 0;
  // Replaces `out` with the drafts behind the sequence so far.
  virtual void propose(DraftTree& out) = 0;
  // Tells the tokens newly appended to the sequence.
  virtual void advance(const int32_t* token_ids, int count) = 0;
};

struct NoDraftOptions {};
using DrafterOptions = std::variant<NoDraftOptions, WindowOptions, TreeOptions>;

class DrafterFactory {
 public:
  // Throws std::invalid_argument, naming the option, where one makes no sense.
  DrafterFactory(DrafterOptions options, std::shared_ptr<const GuessModel> model);

  const GuessModel& model() const { return *model_; }
  const DrafterOptions& options() const { return options_; }
  std::unique_ptr<Drafter> start(const int32_t* source_ids, int source_length) const;

 private:
  DrafterOptions options_;
  std::shared_ptr<const GuessModel> model_;
};

}  // namespace molspec
