#include "search/rows.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "common/require.h"

namespace molspec {
namespace {

constexpr int32_t kNotStaged = -1;

// Splits rows of columns [first, length) into groups, each a rectangle of columns.
template <typename Leaf>
std::vector<std::vector<size_t>> split(const std::vector<Leaf>& leaves, int64_t call_cost) {
  std::vector<size_t> order(leaves.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](size_t row) { return std::tuple(leaves[row].first, leaves[row].length); };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return key(a) > key(b); });
  std::vector<std::vector<size_t>> groups;
  int64_t least = 0, longest = 0, needed = 0;
  for (const size_t row : order) {
    const auto& [slots, length, first, memory] = leaves[row];
    const auto count = static_cast<int64_t>(groups.empty() ? 0 : groups.back().size());
    const int64_t size = (std::max(longest, length) - std::min(least, first)) * (count + 1);
    if (count == 0 || size - needed - (length - first) > call_cost) {
      groups.emplace_back();
      least = first;
      longest = needed = 0;
    }
    groups.back().push_back(row);
    least = std::min(least, first);
    longest = std::max(longest, length);
    needed += length - first;
  }
  return groups;
}

}  // namespace

std::vector<RowsCall> TokenRows::calls(const TokenTree::StagedNode* nodes, size_t node_count,
                                       const int32_t* path_slots, size_t path_count,
                                       const RowsOptions& options) {
  const std::span staged(nodes, node_count);
  const std::span paths(path_slots, path_count);
  for (const auto& node : staged)
    require(node.position >= 0 && node.path_begin >= 0 &&
                static_cast<size_t>(node.path_begin) + node.position < path_count,
            "path_begin", node.path_begin, "a path within path_slots");
  if (!paths.empty()) {
    const auto [least, most] = std::ranges::minmax(paths);
    require(least >= 0, "path_slots", least, "slots of at least 0");
    token_ids_.resize(std::max(token_ids_.size(), static_cast<size_t>(most) + 1));
  }
  std::vector<int32_t> index(token_ids_.size(), kNotStaged);  // among the staged nodes, by slot
  std::vector<bool> is_parent(node_count);
  for (size_t i = 0; i < node_count; ++i) {
    const int32_t* slot = &paths[nodes[i].path_begin + nodes[i].position];
    token_ids_[*slot] = nodes[i].token_id;
    index[*slot] = static_cast<int32_t>(i);
    if (nodes[i].position > 0 && index[slot[-1]] != kNotStaged) is_parent[index[slot[-1]]] = true;
  }
  std::vector<Leaf> leaves;
  std::vector<size_t> row_of(node_count);  // any leaf whose path has the node
  for (size_t i = 0; i < node_count; ++i) {
    if (is_parent[i]) continue;
    Leaf leaf{&paths[nodes[i].path_begin], nodes[i].position + 1, 0, nodes[i].memory};
    int64_t evaluated = leaf.length;  // staged nodes end their path
    for (; evaluated > 0 && index[leaf.slots[evaluated - 1]] != kNotStaged; --evaluated)
      row_of[index[leaf.slots[evaluated - 1]]] = leaves.size();
    if (options.caches) leaf.first = evaluated;
    leaves.push_back(leaf);
  }
  std::vector<RowsCall> calls;
  std::vector<std::pair<size_t, int64_t>> where(leaves.size());  // of a leaf: its call and row
  for (std::vector<size_t>& group : split(leaves, options.call_cost)) {
    std::ranges::sort(group);  // the memories are mostly those of the step before
    for (size_t row = 0; row < group.size(); ++row)
      where[group[row]] = {calls.size(), static_cast<int64_t>(row)};
    calls.push_back(call(leaves, group, options));
  }
  for (size_t i = 0; i < node_count; ++i) {
    const auto& [at, row] = where[row_of[i]];
    RowsCall& own = calls[at];
    own.nodes.push_back(static_cast<int64_t>(i));
    own.slots.push_back(paths[nodes[i].path_begin + nodes[i].position]);
    own.rows.push_back(row);
    own.columns.push_back(own.paddings[row] + nodes[i].position - own.first);
  }
  return calls;
}

RowsCall TokenRows::call(const std::vector<Leaf>& leaves, const std::vector<size_t>& group,
                         const RowsOptions& options) const {
  RowsCall made;
  made.first = leaves[group[0]].first;
  for (const size_t row : group) {
    made.first = std::min(made.first, leaves[row].first);
    made.width = std::max(made.width, leaves[row].length);
  }
  made.width -= made.first;
  for (const size_t row : group) {
    const Leaf& leaf = leaves[row];
    const int64_t padding = made.width - (leaf.length - made.first);
    made.memories.push_back(leaf.memory);
    made.paddings.push_back(options.pads_left ? padding : 0);
    made.cached_slots.insert(made.cached_slots.end(), leaf.slots, leaf.slots + made.first);
    std::vector<int64_t>& ids = made.token_ids;
    ids.resize(ids.size() + static_cast<size_t>(made.paddings.back()), options.pad_id);
    for (int64_t at = made.first; at < leaf.length; ++at) ids.push_back(token_ids_[leaf.slots[at]]);
    ids.resize(made.memories.size() * static_cast<size_t>(made.width), options.pad_id);
  }
  return made;
}

}  // namespace molspec
