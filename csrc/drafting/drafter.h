// Drafts the next tokens after any path of one query.

#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "drafting/draft_tree.h"
#include "drafting/guess.h"
#include "drafting/windows.h"

namespace molspec {

// Not thread-safe. A drafter's trees depend on its query and the path alone.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Begins a query. source_ids are in the target's vocabulary, without BOS and EOS. May be called
  // again. Throws std::invalid_argument for ids outside the vocabulary.
  virtual void start(const std::vector<int32_t>& source_ids) = 0;
  // Replaces `out` with the drafts after a path, given without BOS. Fast if the path extends the
  // previous one.
  virtual void propose(const std::vector<int32_t>& token_ids, DraftTree& out) = 0;
};

struct NoDraftOptions {
  bool operator==(const NoDraftOptions&) const = default;
};
// An external drafter drafts after the paths that the search gives it.
struct ExternalOptions {
  bool operator==(const ExternalOptions&) const = default;
};
using DrafterOptions = std::variant<NoDraftOptions, WindowOptions, TreeOptions, ExternalOptions>;

// Whether drafts are left out while they do not pay.
inline bool pays_for_paths(const DrafterOptions& options) {
  const auto* tree = std::get_if<TreeOptions>(&options);
  return tree != nullptr && tree->whole_paths;
}

// Returns null for ExternalOptions.
std::unique_ptr<Drafter> make_drafter(const DrafterOptions& options,
                                      std::shared_ptr<const GuessModel> model);

}  // namespace molspec
