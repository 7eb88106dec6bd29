"""The main component of a salt or a mixture, by RDKit's list of counter-ions and solvents."""

from __future__ import annotations

from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from molspec.text.molecules import read_smiles, write_smiles
from molspec.text.rings import too_many_rings
from molspec.text.smiles import is_one_word, quiet

#: Longer texts are left unchanged: no model reads as much, and RDKit would take seconds.
LONGEST = 1000


def main_component(smiles: str) -> tuple[str, tuple[str, ...]]:
    """Remove salts, solvents and smaller molecules, and neutralise the main component.

    Returns it with the removed molecules, each once. Of several molecules that are neither salt nor
    solvent, the one with the most heavy atoms is the main component. A single molecule, a text that
    is none, and one longer than LONGEST are returned unchanged.
    """
    if "." not in smiles or len(smiles) > LONGEST or not is_one_word(smiles):
        return smiles, ()
    with quiet():
        whole = None if too_many_rings(smiles) else read_smiles(smiles)
        if whole is None:
            return smiles, ()
        parts = _fragments(whole)
        if len(parts) < 2:
            return smiles, ()
        rest = _fragments(rdMolStandardize.FragmentRemover().remove(whole))
        main = min(rest, key=lambda part: (-rest[part].GetNumHeavyAtoms(), part))
        parent = write_smiles(rdMolStandardize.Uncharger().uncharge(rest[main]))
        if read_smiles(parent) is None:  # the neutral form of PF6- has no valence
            parent = main
    return parent, tuple(sorted(parts.keys() - {main}))


def _fragments(molecule: Chem.Mol) -> dict[str, Chem.Mol]:
    """Its molecules by their SMILES, each once."""
    return {write_smiles(part): part for part in Chem.GetMolFrags(molecule, asMols=True)}
