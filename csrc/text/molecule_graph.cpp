#include "text/molecule_graph.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <tuple>

namespace molspec {
namespace {

constexpr int32_t kNoAtom = -1;

struct RingEnd {
  int32_t atom = kNoAtom;
  int32_t bond = MoleculeGraph::kPlainBond;
};

// Bonds that are in no ring, by depth-first search (Tarjan 1974).
class BridgeFinder {
 public:
  explicit BridgeFinder(std::vector<Atom>& atoms) : atoms_(atoms), order_(atoms.size(), 0) {}

  void mark() {
    for (size_t root = 0; root < atoms_.size(); ++root)
      if (order_[root] == 0) search(static_cast<int32_t>(root), kNoAtom);
  }

 private:
  // Returns the least order of the atoms that a bond joins to `atom` or to those after it.
  int32_t search(int32_t atom, int32_t parent) {
    const int32_t own = order_[atom] = ++time_;
    int32_t least = own;
    for (const Bond& bond : atoms_[atom].bonds) {
      const int32_t other = bond.neighbour;
      if (other == parent) continue;
      const bool is_new = order_[other] == 0;
      const int32_t reached = is_new ? search(other, atom) : order_[other];
      least = std::min(least, reached);
      if (is_new && reached > own) set_bridge(atom, other), set_bridge(other, atom);
    }
    return least;
  }

  void set_bridge(int32_t from, int32_t to) {
    for (Bond& bond : atoms_[from].bonds)
      if (bond.neighbour == to) bond.in_ring = false;
  }

  std::vector<Atom>& atoms_;
  std::vector<int32_t> order_;
  int32_t time_ = 0;
};

}  // namespace

bool MoleculeGraph::parse(const std::vector<int32_t>& source_ids, const TokenRoles& roles) {
  atoms_.clear();
  ranks_.clear();
  if (!parse_tokens(source_ids, roles)) {
    atoms_.clear();
    return false;
  }
  BridgeFinder(atoms_).mark();
  rank(roles);
  sort_bonds();
  return true;
}

bool MoleculeGraph::parse_tokens(const std::vector<int32_t>& source_ids, const TokenRoles& roles) {
  std::array<RingEnd, SymbolTable::kRingNumbers> open_rings;
  int open_ring_count = 0;
  std::vector<int32_t> branches;
  int32_t last = kNoAtom;
  int32_t bond = kPlainBond;
  int32_t position = -1;
  for (const int32_t token : source_ids) {
    ++position;
    switch (roles.kind(token)) {
      case TokenKind::kAtom: {
        const auto atom = static_cast<int32_t>(atoms_.size());
        atoms_.push_back({token, position, {}});
        if (last != kNoAtom) connect(last, atom, bond, roles);
        last = atom;
        bond = kPlainBond;
        break;
      }
      case TokenKind::kBond:
        if (last == kNoAtom || bond != kPlainBond) return false;
        bond = token;
        break;
      case TokenKind::kRing: {
        if (last == kNoAtom) return false;
        RingEnd& end = open_rings[roles.role(token).ring_number];
        if (end.atom == kNoAtom) {
          end = {last, bond};
          ++open_ring_count;
        } else {
          if (end.atom == last) return false;
          connect(end.atom, last, bond == kPlainBond ? end.bond : bond, roles);
          end = RingEnd();
          --open_ring_count;
        }
        bond = kPlainBond;
        break;
      }
      case TokenKind::kOpen:
        if (last == kNoAtom || bond != kPlainBond) return false;
        branches.push_back(last);
        break;
      case TokenKind::kClose:
        if (branches.empty() || bond != kPlainBond) return false;
        last = branches.back();
        branches.pop_back();
        break;
      case TokenKind::kDot:
        if (last == kNoAtom || bond != kPlainBond || !branches.empty()) return false;
        last = kNoAtom;
        break;
      case TokenKind::kOther:
        return false;
    }
  }
  return bond == kPlainBond && branches.empty() && open_ring_count == 0;
}

void MoleculeGraph::connect(int32_t first, int32_t second, int32_t token, const TokenRoles& roles) {
  Atom& left = atoms_[first];
  Atom& right = atoms_[second];
  int32_t order = 1;
  if (token != kPlainBond) {
    order = roles.role(token).bond_order;
  } else if (roles.role(left.token).aromatic && roles.role(right.token).aromatic) {
    order = kAromaticBond;
  }
  left.bonds.push_back({second, token, order, true});
  right.bonds.push_back({first, token, order, true});
}

void MoleculeGraph::rank(const TokenRoles& roles) {
  const size_t count = atoms_.size();
  // Three rounds of neighbours distinguish nearly all atoms that RDKit distinguishes.
  constexpr int kRounds = 3;
  using Key = std::vector<int32_t>;
  std::vector<Key> keys(count);
  for (size_t i = 0; i < count; ++i) {
    const Atom& atom = atoms_[i];
    const TokenRoles::Role& role = roles.role(atom.token);
    int32_t order = 0;
    for (const Bond& bond : atom.bonds) order += bond.order == kAromaticBond ? 1 : bond.order;
    keys[i] = {static_cast<int32_t>(atom.bonds.size()), role.atomic_number, role.hydrogen_count,
               -order, atom.token};
  }
  std::vector<size_t> sorted(count);
  std::iota(sorted.begin(), sorted.end(), size_t{0});
  ranks_.assign(count, 0);
  for (int round = 0;; ++round) {
    std::ranges::sort(sorted, {}, [&](size_t atom) -> const Key& { return keys[atom]; });
    for (size_t i = 1; i < count; ++i) {
      const bool same = keys[sorted[i]] == keys[sorted[i - 1]];
      ranks_[sorted[i]] = same ? ranks_[sorted[i - 1]] : static_cast<int32_t>(i);
    }
    if (count > 0) ranks_[sorted[0]] = 0;
    if (round == kRounds) return;
    for (size_t i = 0; i < count; ++i) {
      keys[i] = {ranks_[i]};
      for (const Bond& bond : atoms_[i].bonds) keys[i].push_back(ranks_[bond.neighbour]);
      std::sort(keys[i].begin() + 1, keys[i].end(), std::greater<int32_t>());
    }
  }
}

void MoleculeGraph::sort_bonds() {
  const auto key = [this](const Bond& bond) {
    return std::make_tuple(bond.in_ring, bond.in_ring ? -bond.order : 0, ranks_[bond.neighbour],
                           bond.neighbour);
  };
  for (Atom& atom : atoms_) std::ranges::sort(atom.bonds, {}, key);
}

}  // namespace molspec
