// Everything a target may be copied from: the source as given, and its molecules written from every
// other atom. A reaction's product seldom keeps the order in which its reactants were written.

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
  // The source position of the atom that a symbol writes or, where it writes none, leads to;
  // after the last atom the source's length.
  std::vector<int32_t> atoms;
  int source_length = 0;  // without EOS

  int size() const { return static_cast<int>(symbols.size()); }
};

class CopyTextWriter {
 public:
  // Long sources are written from every second, third, ... atom to stay below this.
  static constexpr int kMaxSize = 4096;
  // Longer sources stand as they are.
  static constexpr int kMaxRewritten = 1024;
  // No copy text of a source of at most `longest` tokens is longer. The last molecule is begun
  // where the source would still fit; other branches make it longer than that by two parentheses an
  // atom at most.
  static constexpr int most_size(int longest) {
    return std::max(longest, kMaxSize + 2 * std::min(longest, kMaxRewritten)) + 1;
  }

  // The roles must outlive the writer.
  explicit CopyTextWriter(const TokenRoles& roles)
      : roles_(&roles),
        symbols_(roles.symbols()),
        branch_open_(roles.find("(")),
        branch_close_(roles.find(")")) {}

  // Replaces `out`. Throws std::invalid_argument for ids outside of the vocabulary.
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
    std::vector<int32_t> opened;  // ring bonds to atoms further on: their ids
    std::vector<Child> closed;    // ring bonds to atoms before; atom: the bond's id
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
