// The drafts of Andronov et al. (J. Cheminform. 2025, s13321-025-00974-w): windows of the source.

#pragma once

#include <cstdint>
#include <vector>

#include "drafting/draft_tree.h"
#include "text/token_roles.h"

namespace molspec {

struct WindowOptions {
  int draft_length;
  int draft_count;
  // Spread the windows evenly over the source, as the published code does; otherwise take the
  // first.
  bool even;
  // Further drafts: every chosen window once more for each inner token, with that token left out.
  bool dilution;
  // Only windows that begin with the last generated token, which is then dropped.
  bool smart;

  bool operator==(const WindowOptions&) const = default;
  void check() const {
    require(draft_length >= 1, "draft_length", draft_length, "at least 1");
    require(draft_count >= 1, "draft_count", draft_count, "at least 1");
  }
};

// The last token of drafts that follow every token.
constexpr int32_t kAnyToken = -1;

// Replaces `out` with the drafts of a source (without BOS and EOS) after a last token, BOS at the
// start: a trie of the windows, each to its first special token. Only "smart" windows depend on the
// last token.
void draft_windows(const std::vector<int32_t>& source_ids, int32_t last_token,
                   const TokenRoles& roles, const WindowOptions& options, DraftTree& out);

}  // namespace molspec
