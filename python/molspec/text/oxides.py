"""Sulfoxides, phosphine oxides and their like, written with charges or with a double bond.

ChEMBL writes DMSO as C[S+](C)[O-], patents as CS(C)=O: one molecule, also to InChI, but two to
RDKit, and a model knows the one that it was trained with.
"""

import re
from typing import Any

from rdkit import Chem

#: Atomic numbers of what has the positive charge (P, S, As, Se, Te), and the negative (O, S, Se).
_CENTRES, _ENDS = {15, 16, 33, 34, 52}, {8, 16, 34}
#: Such a centre in SMILES.
_POSITIVE = re.compile(r"(?:[PSps]|[STst]e)[@H\d]*\+")


def may_be_oxide(smiles: str) -> bool:
    """Whether SMILES has a positive centre; most charges are of nitro groups and salts."""
    return bool(_POSITIVE.search(smiles))


def with_double_bonds(molecule: Any) -> Any:
    """The molecule with a double bond in place of each such pair of charges."""
    if not any(_charges(bond) for bond in molecule.GetBonds()):
        return molecule
    changed = Chem.RWMol(molecule)
    Chem.Kekulize(changed, clearAromaticFlags=True)
    for bond in changed.GetBonds():
        if pair := _charges(bond):
            bond.SetBondType(Chem.BondType.DOUBLE)
            for atom, change in zip(pair, (-1, 1), strict=True):
                atom.SetFormalCharge(atom.GetFormalCharge() + change)
    if Chem.SanitizeMol(changed, catchErrors=True) != Chem.SANITIZE_NONE:
        return molecule
    Chem.AssignStereochemistry(changed, cleanIt=True, force=True)
    return changed.GetMol()


def _charges(bond: Any) -> tuple[Any, Any] | None:
    """The ends of a bond between such charges, the positive one first."""
    if bond.GetBondType() != Chem.BondType.SINGLE:
        return None
    ends = bond.GetBeginAtom(), bond.GetEndAtom()
    centre, end = sorted(ends, key=lambda atom: -atom.GetFormalCharge())
    is_pair = centre.GetAtomicNum() in _CENTRES and end.GetAtomicNum() in _ENDS
    is_charged = centre.GetFormalCharge() > 0 and end.GetFormalCharge() == -1
    return (centre, end) if is_pair and is_charged and end.GetDegree() == 1 else None
