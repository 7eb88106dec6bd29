#include "drafting/windows.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace molspec {
namespace {

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

// Adds windows of a text to a tree.
struct Windows {
  const std::vector<int32_t>& text;
  const WindowOptions& options;
  const TokenRoles& roles;
  std::optional<int32_t> filler;  // after the text's end; without it a window ends there
  DraftTree& out;

  // The window from `start`; with dilution also once without each of its inner tokens.
  void add(int start) const {
    add(start, -1);
    for (int skip = start + 1; options.dilution && skip < start + options.draft_length; ++skip)
      if (skip < static_cast<int>(text.size())) add(start, skip);
  }

 private:
  // Without the token at `skip` (none if negative).
  void add(int start, int skip) const {
    int32_t node = DraftTree::kRoot;
    for (int i = start; i < start + options.draft_length + (skip < 0 ? 0 : 1); ++i) {
      if (i == skip) continue;
      const bool ended = i >= static_cast<int>(text.size());
      if (ended && !filler) return;
      const int32_t token = ended ? *filler : text[i];
      if (roles.special().holds(token)) return;
      const int32_t next = out.child(node, token);
      node = next == DraftTree::kNone ? out.add(token, node, 0) : next;
    }
  }
};

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
  out.clear();
  if (options.smart) {
    std::vector<int32_t> text = {roles.special().bos};
    text.insert(text.end(), source_ids.begin(), source_ids.end());
    const Windows windows{text, options, roles, std::nullopt, out};
    int chosen = 0;
    for (size_t start = 0; start < source_ids.size() && chosen < options.draft_count; ++start) {
      if (text[start] != last_token) continue;
      ++chosen;
      windows.add(static_cast<int>(start) + 1);
    }
  } else {
    const auto filler = options.even ? roles.find(kFiller) : std::nullopt;
    const Windows windows{source_ids, options, roles, filler, out};
    for (const int start : window_starts(static_cast<int>(source_ids.size()), options))
      windows.add(start);
  }
  share_evenly(out);
}

}  // namespace molspec
