#include "drafting/window_trees.h"

#include <algorithm>
#include <set>

namespace molspec {
namespace {

constexpr int32_t kAnyToken = -1;

struct Row {
  std::vector<int32_t> heads, nodes;

  void add(int32_t last_token, const DraftTree& tree) {
    const auto first = static_cast<int32_t>(nodes.size() / 2);
    heads.insert(heads.end(), {last_token, first, tree.size()});
    for (size_t i = 0; i < tree.token_ids.size(); ++i)
      nodes.insert(nodes.end(), {tree.token_ids[i], tree.parents[i]});
  }
};

}  // namespace

std::vector<int32_t> window_trees(const int32_t* source_ids, int source_length,
                                  const TokenRoles& roles, const WindowOptions& options) {
  SourceWindows trees(options, roles);
  trees.start(source_ids, source_length);
  const int32_t bos = roles.special().bos;
  Row row;
  if (options.smart) {
    std::set<int32_t> last_tokens(source_ids, source_ids + source_length);
    last_tokens.insert(bos);
    for (const int32_t last_token : last_tokens)
      if (const DraftTree& tree = trees.after(last_token); tree.size() > 0)
        row.add(last_token, tree);
  } else {
    row.add(kAnyToken, trees.after(bos));
  }
  std::vector<int32_t> numbers = {static_cast<int32_t>(row.heads.size() / 3)};
  numbers.insert(numbers.end(), row.heads.begin(), row.heads.end());
  numbers.insert(numbers.end(), row.nodes.begin(), row.nodes.end());
  return numbers;
}

WindowTreeLimits window_tree_limits(const WindowOptions& options, int longest) {
  const int64_t drafts = options.dilution ? options.draft_length : 1;  // of a window
  const int64_t window_nodes = drafts * options.draft_length;
  const int64_t nodes = window_nodes * options.draft_count;
  if (!options.smart) return {nodes, 1 + 3 + 2 * nodes};
  return {nodes, 1 + 3 * int64_t{longest + 1} + 2 * window_nodes * longest};
}

}  // namespace molspec
