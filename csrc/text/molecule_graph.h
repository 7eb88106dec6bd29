// A source's tokens as atoms and bonds: the part of SMILES that rewriting needs.

#pragma once

#include <cstdint>
#include <vector>

#include "text/token_roles.h"

namespace molspec {

struct Bond {
  int32_t neighbour;  // atom index
  int32_t token;      // the bond's own token, or MoleculeGraph::kPlainBond
  int32_t order;      // 1, 2, 3, 4 or kAromaticBond
  bool in_ring = false;
};

struct Atom {
  int32_t token;
  int32_t position;         // of the token in the source
  std::vector<Bond> bonds;  // in the order in which RDKit, nearly, would walk them
};

class MoleculeGraph {
 public:
  static constexpr int32_t kPlainBond = -1;
  static constexpr int32_t kAromaticBond = 12;

  // Replaces the graph. Returns false, with an empty graph, if the tokens are not valid SMILES:
  // unbalanced parentheses, unclosed rings, a bond without atoms.
  bool parse(const std::vector<int32_t>& source_ids, const TokenRoles& roles);

  const std::vector<Atom>& atoms() const { return atoms_; }

 private:
  bool parse_tokens(const std::vector<int32_t>& source_ids, const TokenRoles& roles);
  void connect(int32_t first, int32_t second, int32_t token, const TokenRoles& roles);
  // Terminal and light atoms first, then by their neighbours; equal atoms share a rank.
  void rank(const TokenRoles& roles);
  // Substituents before rings, lower ranks first.
  void sort_bonds();

  std::vector<Atom> atoms_;
  std::vector<int32_t> ranks_;
};

}  // namespace molspec
