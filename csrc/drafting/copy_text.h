// The texts that a target may copy: the source as given, and its molecules written from every other
// atom. A reaction's product seldom has its atoms in the order of the reactants' SMILES.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "text/molecule_graph.h"
#include "text/token_roles.h"

namespace molspec {

// One symbol a position. The source comes first and ends in EOS; every further writing ends in PAD,
// which no target contains.
struct CopyText {
  std::vector<int32_t> symbols;
  // The source position of the symbol's atom or, for other symbols, of the next atom; after the
  // last atom the source's length.
  std::vector<int32_t> atoms;
  int source_length = 0;  // without EOS

  int size() const { return static_cast<int>(symbols.size()); }
};

class CopyTextWriter {
 public:
  // Long sources are written from every second, third, ... atom to stay below this.
  static constexpr int kMaxSize = 4096;
  // Longer sources are not rewritten.
  static constexpr int kMaxRewritten = 1024;
  // The maximum length of the copy text of a source of at most `longest` tokens. The last rewriting
  // begins while the source would still fit; other branches lengthen it by at most two parentheses
  // an atom.
  static constexpr int most_size(int longest) {
    return std::max(longest, kMaxSize + 2 * std::min(longest, kMaxRewritten)) + 1;
  }

  // The roles must outlive the writer.
  explicit CopyTextWriter(const TokenRoles& roles)
      : roles_(&roles),
        symbols_(roles.symbols()),
        branch_open_(roles.find("(")),
        branch_close_(roles.find(")")) {}

  // Replaces `out`. Throws std::invalid_argument for ids outside the vocabulary.
  void write(const std::vector<int32_t>& source_ids, bool rewrite, CopyText& out);

 private:
  void write_source(const std::vector<int32_t>& source_ids, CopyText& out) const;
  void write_molecule(int32_t root, CopyText& out);
  void visit(int32_t atom, int32_t parent);
  void emit(int32_t atom, CopyText& out);
  bool repeated(size_t begin, const CopyText& out);

  struct Child {
    int32_t atom;
    int32_t bond;
  };
  struct Visit {
    int32_t order = 0;            // 0: not yet visited
    std::vector<Child> children;  // in the order of writing; the last one is the main chain
    std::vector<int32_t> opened;  // ids of ring bonds to later atoms
    std::vector<Child> closed;    // ring bonds to earlier atoms; atom: the bond's id
  };

  const TokenRoles* roles_;
  SymbolTable symbols_;
  std::optional<int32_t> branch_open_;
  std::optional<int32_t> branch_close_;
  MoleculeGraph graph_;
  std::vector<Visit> visits_;
  std::vector<int32_t> open_rings_;
  std::vector<uint64_t> hashes_;
  int32_t time_ = 0;
  int32_t ring_count_ = 0;
};

}  // namespace molspec
