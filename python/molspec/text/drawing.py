"""Drawings of molecules."""

from typing import Any

from rdkit import Chem

from molspec.text.molecules import read_smiles
from molspec.text.smiles import quiet

#: Pixels of an angstrom: bonds have the same length in every drawing, whose size varies.
_SCALE = 19.0
_AS_LARGE_AS_NEEDED = (-1, -1)
#: Larger molecules are shown as text: RDKit would lay out their drawing for minutes.
_LONGEST_DRAWN, _MOST_ATOMS_DRAWN = 1000, 400


def drawing(smiles: str) -> str | None:
    """An SVG element; None if it is not a molecule to RDKit, such as `reactants>reagents`."""
    if len(smiles) > _LONGEST_DRAWN:
        return None
    with quiet():
        molecule = read_smiles(smiles.strip())  # its > may be of a bond, ->
        if molecule is None:
            molecule = read_smiles(smiles.strip().replace(">", "."))
        if molecule is None or not 0 < molecule.GetNumAtoms() <= _MOST_ATOMS_DRAWN:
            return None
        return _svg(molecule)


def _svg(molecule: Chem.Mol) -> str:
    from rdkit.Chem.Draw import rdMolDraw2D  # it needs some of the system's libraries

    drawer: Any = rdMolDraw2D.MolDraw2DSVG(*_AS_LARGE_AS_NEEDED)
    drawer.drawOptions().scalingFactor = _SCALE
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule)
    drawer.FinishDrawing()
    text = str(drawer.GetDrawingText())
    return text[text.index("<svg") :].strip()
