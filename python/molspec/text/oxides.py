"""Sulfoxides, phosphine oxides and their like, written with charges or with a double bond.

ChEMBL writes DMSO as C[S+](C)[O-], patents as CS(C)=O: one molecule, also to InChI, but two to
RDKit, and a model knows the one that it was trained with.
"""

import re
from typing import Any

from rdkit import Chem

#: Atomic numbers of what has the positive charge (P, S, As, Se, Te), and the negative (O, S, Se).
_CENTRES, _ENDS = {15, 16, 33, 34, 52}, {8, 16, 34}
#: Such a centre in SMILES: most charges are of nitro groups and salts, and cost no walk.
_POSITIVE = re.compile(r"(?:[PSps]|[STst]e)[@H\d]*\+")


def with_double_bonds(molecule: Chem.Mol, smiles: str) -> Chem.Mol:
    """The molecule of SMILES with double bonds for such charges, to oxygen before sulfur."""
    if not _POSITIVE.search(smiles):
        return molecule
    changed = Chem.RWMol(molecule)
    Chem.Kekulize(changed, clearAromaticFlags=True)
    ends = [(end, bond) for bond in changed.GetBonds() for _, end in _charges(bond)]
    for _, bond in sorted(ends, key=lambda each: (each[0].GetAtomicNum(), each[0].GetIsotope())):
        for centre, end in _charges(bond):  # unless another end has neutralised the centre
            bond.SetBondType(Chem.BondType.DOUBLE)
            centre.SetFormalCharge(centre.GetFormalCharge() - 1)
            end.SetFormalCharge(0)
    if not ends or Chem.SanitizeMol(changed, catchErrors=True) != Chem.SANITIZE_NONE:
        return molecule
    Chem.AssignStereochemistry(changed, cleanIt=True, force=True)
    return Chem.Mol(changed)


def _charges(bond: Any) -> list[tuple[Any, Any]]:
    """The positive end of a bond and the negative one, if it is such a pair; radicals are not."""
    ends = bond.GetBeginAtom(), bond.GetEndAtom()
    centre, end = sorted(ends, key=lambda atom: -atom.GetFormalCharge())
    is_pair = centre.GetAtomicNum() in _CENTRES and end.GetAtomicNum() in _ENDS
    is_charged = centre.GetFormalCharge() > 0 and end.GetFormalCharge() == -1
    is_single = bond.GetBondType() == Chem.BondType.SINGLE and end.GetDegree() == 1
    radicals = centre.GetNumRadicalElectrons()
    return [(centre, end)] if is_pair and is_charged and is_single and not radicals else []
