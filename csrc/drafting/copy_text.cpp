#include "drafting/copy_text.h"

namespace molspec {

void CopyTextWriter::write(const std::vector<int32_t>& source_ids, bool rewrite, CopyText& out) {
  write_source(source_ids, out);
  const int source_length = out.source_length;
  if (!rewrite || !branch_open_ || !branch_close_ || source_length > kMaxRewritten) return;
  if (!graph_.parse(source_ids, *roles_)) return;
  const auto atom_count = static_cast<int32_t>(graph_.atoms().size());
  visits_.resize(static_cast<size_t>(atom_count));
  hashes_.clear();
  const int64_t whole = static_cast<int64_t>(atom_count) * source_length;
  const auto stride = static_cast<int32_t>(whole / kMaxSize + 1);
  for (int32_t root = 0; root < atom_count; root += stride) {
    if (out.size() + source_length >= kMaxSize) return;
    const size_t begin = out.symbols.size();
    write_molecule(root, out);
    if (repeated(begin, out)) {
      out.symbols.resize(begin);
      out.atoms.resize(begin);
    }
  }
}

void CopyTextWriter::write_source(const std::vector<int32_t>& source_ids, CopyText& out) const {
  roles_->check_tokens(source_ids);  // before `out` changes
  out.symbols.clear();
  out.source_length = static_cast<int>(source_ids.size());
  OpenRings rings;
  for (const int32_t token : source_ids) {
    out.symbols.push_back(symbols_.symbol(token, rings));
    symbols_.advance(token, rings);
  }
  out.symbols.push_back(roles_->special().eos);
  out.atoms.assign(out.symbols.size(), out.source_length);
  for (size_t i = source_ids.size(); i-- > 0;) {
    const bool is_atom = roles_->kind(source_ids[i]) == TokenKind::kAtom;
    out.atoms[i] = is_atom ? static_cast<int32_t>(i) : out.atoms[i + 1];
  }
}

void CopyTextWriter::write_molecule(int32_t root, CopyText& out) {
  for (Visit& visit : visits_) {
    visit.order = 0;
    visit.children.clear();
    visit.opened.clear();
    visit.closed.clear();
  }
  time_ = 0;
  ring_count_ = 0;
  open_rings_.clear();
  visit(root, root);
  emit(root, out);
  out.symbols.push_back(roles_->special().pad);
  out.atoms.push_back(out.source_length);
}

// First pass: which bonds close rings, and the order of the branches.
void CopyTextWriter::visit(int32_t atom, int32_t parent) {
  Visit& here = visits_[atom];
  here.order = ++time_;
  for (const Bond& bond : graph_.atoms()[atom].bonds) {
    if (bond.neighbour == parent) continue;
    Visit& other = visits_[bond.neighbour];
    if (other.order == 0) {
      here.children.push_back({bond.neighbour, bond.token});
      visit(bond.neighbour, atom);
    } else if (other.order < here.order) {
      other.opened.push_back(ring_count_);
      here.closed.push_back({ring_count_++, bond.token});
    }
  }
}

// Second pass: the symbols.
void CopyTextWriter::emit(int32_t atom, CopyText& out) {
  const Visit& here = visits_[atom];
  const int32_t position = graph_.atoms()[atom].position;
  const auto put = [&](int32_t symbol, int32_t source_position) {
    out.symbols.push_back(symbol);
    out.atoms.push_back(source_position);
  };
  put(graph_.atoms()[atom].token, position);
  const size_t digits = out.symbols.size();
  for (const Child& ring : here.closed) {
    if (ring.bond != MoleculeGraph::kPlainBond) put(ring.bond, position);
    const auto found = std::find(open_rings_.begin(), open_rings_.end(), ring.atom);
    const auto rank = static_cast<int>(open_rings_.end() - found) - 1;
    put(symbols_.close_symbol(std::min(rank, OpenRings::kCapacity - 1)), position);
    open_rings_.erase(found);
  }
  for (const int32_t ring : here.opened) {
    put(symbols_.open_symbol(), position);
    open_rings_.push_back(ring);
  }
  for (size_t i = 0; i < here.children.size(); ++i) {
    const Child& child = here.children[i];
    const int32_t next = graph_.atoms()[child.atom].position;
    const bool branch = i + 1 < here.children.size();
    if (i == 0)
      std::fill(out.atoms.begin() + static_cast<std::ptrdiff_t>(digits), out.atoms.end(), next);
    if (branch) put(*branch_open_, next);
    if (child.bond != MoleculeGraph::kPlainBond) put(child.bond, next);
    emit(child.atom, out);
    if (branch) {
      const int32_t following = here.children[i + 1].atom;
      put(*branch_close_, graph_.atoms()[following].position);
    }
  }
}

bool CopyTextWriter::repeated(size_t begin, const CopyText& out) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (size_t i = begin; i < out.symbols.size(); ++i)
    hash = (hash ^ static_cast<uint64_t>(out.symbols[i])) * 0x100000001b3U;
  if (std::find(hashes_.begin(), hashes_.end(), hash) != hashes_.end()) return true;
  hashes_.push_back(hash);
  return false;
}

}  // namespace molspec
