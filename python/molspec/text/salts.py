"""Molecules without their counter-ions, by RDKit's list of those and of solvents."""

from __future__ import annotations

from collections import Counter

from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from molspec.text.smiles import quiet

#: Characters beyond which nothing is taken off: no model reads as much, and RDKit takes seconds.
LONGEST = 1000


def without_salts(smiles: str) -> tuple[str, tuple[str, ...]]:
    """Take salts and solvents off and neutralise what is left; with what was taken off.

    What is no molecule, has none of them, would be nothing without them, or is longer than LONGEST
    is given back as it is.
    """
    if "." not in smiles or len(smiles) > LONGEST:
        return smiles, ()
    with quiet():
        whole = Chem.MolFromSmiles(smiles)
        if whole is None:
            return smiles, ()
        rest = rdMolStandardize.FragmentRemover().remove(whole)
        removed = _fragments(whole) - _fragments(rest)
        if not removed:
            return smiles, ()
        rest = rdMolStandardize.Uncharger().uncharge(rest)
    return str(Chem.MolToSmiles(rest)), tuple(sorted(removed.elements()))


def _fragments(molecule: Chem.Mol) -> Counter[str]:
    return Counter(str(Chem.MolToSmiles(part)) for part in Chem.GetMolFrags(molecule, asMols=True))
