// Proposes what the model may say next: for one query, after any path of it.

#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "drafting/draft_tree.h"
#include "drafting/guess.h"
#include "drafting/windows.h"

namespace molspec {

// One thread at a time. A drafter's trees depend on its query and the path alone.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Begins a query. source_ids in the target's vocabulary, without BOS and EOS. May be called
  // again. Throws std::invalid_argument for ids outside of the vocabulary.
  virtual void start(const std::vector<int32_t>& source_ids) = 0;
  // Replaces `out` with the drafts after a path, given without BOS. Quick where it goes on from
  // the path before.
  virtual void propose(const std::vector<int32_t>& token_ids, DraftTree& out) = 0;
};

struct NoDraftOptions {};
// Drafts come from outside of the search: it says after which paths.
struct OutsideOptions {};
using DrafterOptions = std::variant<NoDraftOptions, WindowOptions, TreeOptions, OutsideOptions>;

// None for OutsideOptions.
std::unique_ptr<Drafter> make_drafter(const DrafterOptions& options,
                                      std::shared_ptr<const GuessModel> model);

}  // namespace molspec
