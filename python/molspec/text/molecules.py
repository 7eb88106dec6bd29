"""Reads and writes SMILES as the newest RDKit does, whichever is installed.

From 2025.3 on RDKit writes the neighbours of metals in brackets, and some double bonds with other
marks; from 2024.3 on it accepts fewer valences. With an older one these are changed here: otherwise
a model would read other tokens than those that it was trained with, and answer for them.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from molspec.text import bounds, oxides

#: Atomic numbers of elements that are not metals to RDKit; 0 is any atom.
_NONMETALS = {0, 1, 2, *range(5, 11), *range(14, 19), *range(33, 37), *range(52, 55), 85, 86}
_ATOM = r"\[[^\[\]]+\]|Br?|Cl?|[NOSPFIbcnops*]"
_IS_NEW = "[CH3]" in Chem.MolToSmiles(Chem.MolFromSmiles("C[Mg]Br"))
_TURNED = {"/": "\\", "\\": "/"}
#: The largest valences, by atomic number, that RDKit 2023.9 has larger ones for.
_VALENCES = {13: 3, 14: 4, 15: 5, 33: 5, 51: 5, 83: 5}
#: What stands in SMILES for stereo, and for a charge.
_STEREO, _CHARGE = r"[@/\\]", r"[+-]\d*\]"

#: Two atoms, by their places in the text.
_Pair = tuple[int, int]


def is_metal(atom: Chem.Atom) -> bool:
    """Whether an atom's element is a metal to RDKit."""
    return atom.GetAtomicNum() not in _NONMETALS


def read_smiles(smiles: str, sanitize: bool = True) -> Chem.Mol | None:
    """The molecule; None if there is none, or if the text is too large for RDKit.

    sanitize: whether RDKit checks valences and looks for rings; then oxides have double bonds too.
    """
    if bounds.too_large(smiles):
        return None
    molecule = Chem.MolFromSmiles(smiles, sanitize=sanitize)
    if molecule is None or not sanitize:
        return molecule
    for atom in () if _IS_NEW else molecule.GetAtoms():
        number = atom.GetAtomicNum()
        most = _VALENCES.get(number - atom.GetFormalCharge()) if number in _VALENCES else None
        if most is not None and atom.GetTotalValence() > most:
            return None
    return oxides.with_double_bonds(molecule, smiles)


def read_inchi(text: str) -> Chem.Mol | None:
    """The molecule of standard InChI; None if there is none, or if it is too large for RDKit.

    InChI does not say where mobile hydrogens are: as in RDKit's canonical tautomer, if it has this
    InChI too.
    """
    if bounds.inchi_too_large(text) or (molecule := Chem.MolFromInchi(text)) is None:
        return None
    tautomer: Chem.Mol = canonical_tautomer(molecule)
    return tautomer if Chem.MolToInchi(tautomer) == text else molecule


@lru_cache(1)
def _tautomers() -> Any:
    """RDKit's tautomers; a centre that takes part in none keeps its configuration."""
    tautomers = rdMolStandardize.TautomerEnumerator()
    tautomers.SetRemoveSp3Stereo(False)
    tautomers.SetRemoveBondStereo(False)
    return tautomers


def canonical_tautomer(molecule: Any) -> Any:
    """RDKit's canonical tautomer."""
    return _tautomers().Canonicalize(molecule)


def write_smiles(molecule: Chem.Mol, root: int = -1) -> str:
    """The molecule's canonical SMILES, or the one that begins at the atom `root`."""
    smiles = str(Chem.MolToSmiles(molecule, rootedAtAtom=root))
    if _IS_NEW or smiles.isalnum():
        return smiles
    if "/" in smiles or "\\" in smiles:
        smiles = _with_marks_turned(molecule, smiles)
    if "[" in smiles:
        smiles = _with_brackets(molecule, smiles)
    return ".".join(sorted(smiles.split("."))) if root < 0 else smiles


def written_order(molecule: Chem.Mol) -> list[int]:
    """The molecule's atoms in the order of the SMILES that was written last."""
    return [int(atom) for atom in molecule.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]]


def _with_brackets(molecule: Chem.Mol, smiles: str) -> str:
    atoms = iter(written_order(molecule))

    def bracketed(token: re.Match[str]) -> str:
        atom = molecule.GetAtomWithIdx(next(atoms))
        neighbours = (each.GetAtomicNum() for each in atom.GetNeighbors())
        if token[0].startswith("[") or _NONMETALS.issuperset(neighbours):
            return token[0]
        count = atom.GetTotalNumHs()
        return f"[{token[0]}{'H' * bool(count)}{count if count > 1 else ''}]"

    return re.sub(_ATOM, bracketed, smiles)


def _with_marks_turned(molecule: Chem.Mol, smiles: str) -> str:
    """Turn the marks of conjugated double bonds so that the first one's first neighbour has "/".

    The first is that with most neighbours among them, of several that which the text has first.
    """
    place = {atom: at for at, atom in enumerate(written_order(molecule))}
    pairs = []
    for bond in molecule.GetBonds():
        a, b = sorted((place[bond.GetBeginAtomIdx()], place[bond.GetEndAtomIdx()]))
        pairs.append((a, b, bond.GetStereo()))
    beside = _conjugated(pairs)
    marks = list(_marks(smiles))
    text = list(smiles)
    while beside:
        together = _reached(min(beside), beside)
        first, partner = min(together, key=lambda pair: (-len(beside[pair]), pair[1]))
        neighbours = {a + b - first for a, b, _ in pairs if first in (a, b)} - {partner}
        mark, ends = next((each for each in marks if first in each[1]), (None, ()))
        # Two that follow the atom have different marks.
        second = first < min(neighbours, default=-1) not in ends
        if mark is not None and smiles[mark] == ("/" if second else "\\"):
            atoms = {atom for pair in together for atom in pair}
            for at, ends in marks:
                if not atoms.isdisjoint(ends):
                    text[at] = _TURNED[smiles[at]]
        for pair in together:
            del beside[pair]
    return "".join(text)


def _conjugated(bonds: list[tuple[int, int, Any]]) -> dict[_Pair, set[_Pair]]:
    """Double bonds that have stereo, each with those that one single bond connects with it."""
    least = Chem.BondStereo.STEREOANY
    of = {atom: (a, b) for a, b, stereo in bonds if stereo > least for atom in (a, b)}
    beside: dict[_Pair, set[_Pair]] = {pair: set() for pair in of.values()}
    for first, second, stereo in bonds:
        if first in of and second in of and not stereo > least:
            beside[of[first]].add(of[second])
            beside[of[second]].add(of[first])
    return beside


def _reached(first: _Pair, beside: dict[_Pair, set[_Pair]]) -> set[_Pair]:
    found, waiting = {first}, [first]
    while waiting:
        new = beside[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _marks(smiles: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The places of the text's marks, each with its two atoms; a ring's bond has one of them."""
    atom, last, branches, mark = -1, -1, [], None
    for token in re.finditer(rf"{_ATOM}|[()/\\.]|%?\d", smiles):
        if token[0] in "/\\":
            mark = token.start()
        elif token[0] == "(":
            branches.append(last)
        elif token[0] == ")":
            last = branches.pop()
        else:
            is_atom = token[0] != "." and not token[0][-1].isdigit()
            atom += is_atom
            if mark is not None:
                yield mark, (last, atom) if is_atom else (last,)
                mark = None
            last = atom if is_atom else last


def but_for_stereo(product: str, reactant: str) -> bool:
    """Whether a reactant is the product but for its stereo, and perhaps its protonation.

    One of the same stereo in another protonation is none: a salt may be for sale.
    """
    neutral, other = _without(_CHARGE, product), _without(_CHARGE, reactant)
    pairs = [(product, reactant)] + [(neutral, other)] * (neutral != other)
    return any(_without(_STEREO, one) == _without(_STEREO, two) for one, two in pairs)


@lru_cache(64)
def _without(mark: str, smiles: str) -> str:
    """Canonical SMILES without stereo, or without the charges that protons make."""
    molecule = read_smiles(smiles) if re.search(mark, smiles) else None
    if molecule is None:
        return smiles
    if mark == _STEREO:
        Chem.RemoveStereochemistry(molecule)
    changed = rdMolStandardize.Uncharger().uncharge(molecule) if mark == _CHARGE else molecule
    return write_smiles(read_smiles(write_smiles(changed)) or molecule)
