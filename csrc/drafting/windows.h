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
  // Spread the windows evenly over the source, as the published code does; else take the first.
  bool even;
  // Further drafts: every chosen window once more for each inner token, with that token left out.
  bool dilution;
  // Only windows that begin with the last generated token, which is then dropped.
  bool smart;

  void check() const {
    require(draft_length >= 1, "draft_length", draft_length, "at least 1");
    require(draft_count >= 1, "draft_count", draft_count, "at least 1");
  }
};

using Drafts = std::vector<std::vector<int32_t>>;

// The drafts of a source (without BOS and EOS) that do not depend on what has been generated.
Drafts window_drafts(const int32_t* source_ids, int source_length, const TokenRoles& roles,
                     const WindowOptions& options);

// The "smart" drafts after `last_token`: BOS at the start.
Drafts smart_window_drafts(const int32_t* source_ids, int source_length, int32_t last_token,
                           const TokenRoles& roles, const WindowOptions& options);

// Replaces `out` with the drafts as a trie: common prefixes once. A draft ends before its first
// special token.
void merge_drafts(const Drafts& drafts, const TokenRoles& roles, DraftTree& out);

// The trees that a query's windows make: one, or of "smart" windows one for every last token.
class SourceWindows {
 public:
  // The roles must outlive it.
  SourceWindows(const WindowOptions& options, const TokenRoles& roles)
      : options_(options), roles_(&roles) {}

  // Begins a query. Throws std::invalid_argument for ids outside of the vocabulary.
  void start(const int32_t* source_ids, int source_length);
  // The drafts after a last token, BOS at the start. Valid until the next call.
  const DraftTree& after(int32_t last_token);

 private:
  WindowOptions options_;
  const TokenRoles* roles_;
  std::vector<int32_t> source_ids_;
  DraftTree tree_;
};

}  // namespace molspec
