#include "drafting/draft_tree.h"

#include <algorithm>

namespace molspec {

int32_t DraftTree::child(int32_t node, int32_t token) const {
  for (int32_t i = node + 1; i < size(); ++i)  // children lie after their parent
    if (parents[i] == node && token_ids[i] == token) return i;
  return kNone;
}

namespace {

template <typename Value, typename... Expected>
void check_entry(bool holds, const char* array, size_t at, Value value,
                 const Expected&... expected) {
  if (!holds)
    throw_invalid("a proposed tree's ", array, "[", at, "] is ", value, ": expected ", expected...);
}

void check_drawn_from(const DraftTree& tree, const TokenRoles& roles) {
  const auto vocab_size = static_cast<size_t>(roles.vocab_size());
  const auto count = tree.token_ids.size();
  if (tree.drawn_from.size() != count * vocab_size)
    throw_invalid("a proposed tree's drawn_from has ", tree.drawn_from.size(),
                  " entries: expected [", count, ", ", vocab_size, "]");
  for (size_t i = 0; i < count; ++i) {
    const auto before = static_cast<int64_t>(i) - 1;
    check_entry(tree.parents[i] == before, "parents", i, tree.parents[i], before,
                ", a chain, as it has drawn_from");
    const double* row = tree.drawn_from.data() + i * vocab_size;
    double total = 0;
    for (size_t token = 0; token < vocab_size; ++token) {
      const bool may = !roles.special().holds(static_cast<int32_t>(token));
      check_entry(may ? row[token] >= 0 : row[token] == 0, "drawn_from", i, row[token],
                  "a probability, 0 of BOS, EOS, PAD and UNK");
      total += row[token];
    }
    check_entry(std::abs(total - 1) < 1e-6, "drawn_from", i, total, "a sum of 1");
  }
}

}  // namespace

AdmittedTree::AdmittedTree(const DraftTree& proposed, const TokenRoles& roles)
    : vocab_size(roles.vocab_size()), special(roles.special()) {
  const size_t count = proposed.token_ids.size();
  if (proposed.parents.size() != count || proposed.log_probs.size() != count)
    throw_invalid("a proposed tree has ", count, " token_ids, ", proposed.parents.size(),
                  " parents and ", proposed.log_probs.size(),
                  " log_probs: expected as many of each");
  constexpr float kSlack = 1e-4F;  // for rounding errors
  if (!proposed.drawn_from.empty()) check_drawn_from(proposed, roles);
  std::vector<int32_t> nodes(count, DraftTree::kNone);
  for (size_t i = 0; i < count; ++i) {
    const int32_t token = proposed.token_ids[i], parent = proposed.parents[i];
    const float log_prob = proposed.log_probs[i];
    check_entry(token >= 0 && token < roles.vocab_size(), "token_ids", i, token, "0 to ",
                roles.vocab_size() - 1);
    check_entry(parent >= DraftTree::kRoot && parent < static_cast<int32_t>(i), "parents", i,
                parent, "-1 to ", static_cast<int64_t>(i) - 1);
    check_entry(log_prob <= proposed.log_prob(parent) + kSlack, "log_probs", i, log_prob,
                "at most its parent's, ", proposed.log_prob(parent));
    const int32_t before = parent == DraftTree::kRoot ? parent : nodes[parent];
    if (before == DraftTree::kNone || roles.special().holds(token)) continue;
    nodes[i] = child(before, token);
    if (nodes[i] == DraftTree::kNone) {
      nodes[i] = add(token, before, log_prob);
    } else {
      float& known = log_probs[nodes[i]];
      known = std::max(known, log_prob);
    }
  }
  // What is left of a chain is its beginning.
  const auto rows = static_cast<std::ptrdiff_t>(token_ids.size()) * roles.vocab_size();
  if (!proposed.drawn_from.empty())
    drawn_from.assign(proposed.drawn_from.begin(), proposed.drawn_from.begin() + rows);
}

void fill(const std::vector<DraftTree*>& waiting, const std::vector<AdmittedTree>& proposed,
          const TokenRoles& roles) {
  if (proposed.size() != waiting.size())
    throw_invalid("proposed has ", proposed.size(), " trees: expected ", waiting.size(),
                  ", one a path");
  for (const AdmittedTree& tree : proposed)
    if (tree.vocab_size != roles.vocab_size() || !(tree.special == roles.special()))
      throw_invalid("a proposed tree was admitted for another vocabulary");
  for (size_t i = 0; i < waiting.size(); ++i) *waiting[i] = proposed[i];
}

}  // namespace molspec
