#include "drafting/windows.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace molspec {
namespace {

using Drafts = std::vector<std::vector<int32_t>>;

// The published code pads a window that reaches over the source's end with this token.
constexpr char kFiller[] = "c";

std::vector<int> window_starts(int source_length, const WindowOptions& options) {
  const int count = options.draft_count;
  const int whole = std::max(source_length - options.draft_length + 1, 0);
  std::vector<int> starts;
  if (!options.even) {
    for (int start = 0; start < std::min(count, source_length); ++start) starts.push_back(start);
    return starts;
  }
  // The quotient first, as the published code does: in float32 the order matters.
  const float step =
      static_cast<float>(std::max(whole, count) - 1) / static_cast<float>(std::max(count - 1, 1));
  for (int k = 0; k < count; ++k) starts.push_back(static_cast<int>(static_cast<float>(k) * step));
  return starts;
}

// `length` tokens from `start`, without the one at `skip` (none if negative). After the source's
// end it takes the filler; without a filler the draft is shorter.
std::vector<int32_t> window(const std::vector<int32_t>& source, int start, int length, int skip,
                            const std::optional<int32_t>& filler) {
  std::vector<int32_t> draft;
  const int source_length = static_cast<int>(source.size());
  for (int i = start; i < start + length + (skip < 0 ? 0 : 1); ++i) {
    if (i == skip) continue;
    if (i < source_length) {
      draft.push_back(source[i]);
    } else if (filler) {
      draft.push_back(*filler);
    }
  }
  return draft;
}

void add_windows(const std::vector<int32_t>& source, int start, int length, bool dilution,
                 const std::optional<int32_t>& filler, Drafts& out) {
  out.push_back(window(source, start, length, -1, filler));
  if (!dilution) return;
  for (int skip = start + 1; skip < start + length; ++skip) {
    if (skip < static_cast<int>(source.size())) {
      out.push_back(window(source, start, length, skip, filler));
    }
  }
}

Drafts window_drafts(const std::vector<int32_t>& source, const TokenRoles& roles,
                     const WindowOptions& options) {
  const std::optional<int32_t> filler = options.even ? roles.find(kFiller) : std::nullopt;
  Drafts drafts;
  for (const int start : window_starts(static_cast<int>(source.size()), options))
    add_windows(source, start, options.draft_length, options.dilution, filler, drafts);
  return drafts;
}

Drafts smart_window_drafts(const std::vector<int32_t>& source_ids, int32_t last_token,
                           const TokenRoles& roles, const WindowOptions& options) {
  std::vector<int32_t> source = {roles.special().bos};
  source.insert(source.end(), source_ids.begin(), source_ids.end());
  Drafts drafts;
  int chosen = 0;
  for (size_t start = 0; start < source_ids.size() && chosen < options.draft_count; ++start) {
    if (source[start] != last_token) continue;
    ++chosen;
    add_windows(source, static_cast<int>(start) + 1, options.draft_length, options.dilution,
                std::nullopt, drafts);
  }
  return drafts;
}

// Windows have no probabilities: the nodes after a node share its probability.
void share_evenly(DraftTree& tree) {
  std::vector<int> siblings(tree.parents.size() + 1);  // after each node, the root first
  for (const int32_t parent : tree.parents) ++siblings[parent + 1];
  for (int32_t i = 0; i < tree.size(); ++i) {
    const int32_t parent = tree.parents[i];
    const auto count = static_cast<float>(siblings[parent + 1]);
    tree.log_probs[i] = tree.log_prob(parent) - std::log(count);
  }
}

}  // namespace

void draft_windows(const std::vector<int32_t>& source_ids, int32_t last_token,
                   const TokenRoles& roles, const WindowOptions& options, DraftTree& out) {
  const Drafts drafts = options.smart ? smart_window_drafts(source_ids, last_token, roles, options)
                                      : window_drafts(source_ids, roles, options);
  out.clear();
  for (const std::vector<int32_t>& draft : drafts) {
    int32_t node = DraftTree::kRoot;
    for (const int32_t token : draft) {
      if (roles.special().holds(token)) break;
      const int32_t next = out.child(node, token);
      node = next == DraftTree::kNone ? out.add(token, node, 0) : next;
    }
  }
  share_evenly(out);
}

}  // namespace molspec
