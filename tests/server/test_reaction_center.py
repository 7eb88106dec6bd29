from __future__ import annotations

import pytest
from rdkit import Chem

from molspec.server.reaction_center import Change, changes


def marked(molecule: Chem.Mol, change: Change) -> tuple[set[str], set[str]]:
    """Symbols and indices of the atoms that change, and the bonds by their ends."""
    atoms = {f"{molecule.GetAtomWithIdx(i).GetSymbol()}{i}" for i in change.atoms}
    bonds = {molecule.GetBondWithIdx(i) for i in change.bonds}
    return atoms, {f"{bond.GetBeginAtomIdx()}-{bond.GetEndAtomIdx()}" for bond in bonds}


@pytest.mark.parametrize("mapped", [False, True])
def test_an_amide_is_made(mapped: bool) -> None:
    if mapped:
        texts = ("[CH3:1][C:2](=[O:3])Cl", "[NH2:4][CH2:5][CH3:6]")
        product = "[CH3:1][C:2](=[O:3])[NH:4][CH2:5][CH3:6]"
    else:
        texts, product = ("CC(=O)Cl", "NCC"), "CC(=O)NCC"
    molecules = [Chem.MolFromSmiles(text) for text in texts]
    made = Chem.MolFromSmiles(product)
    (chloride, amine), of_product = changes(molecules, made)
    assert marked(molecules[0], chloride) == ({"C1", "Cl3"}, {"1-3"})
    assert marked(molecules[1], amine) == (set(), set())
    assert marked(made, of_product) == ({"C1", "N3"}, {"1-3"})


def test_a_bond_of_another_order_changes() -> None:
    ketone = Chem.MolFromSmiles("[CH3:1][C:2](=[O:3])[CH3:4]")
    made = Chem.MolFromSmiles("[CH3:1][CH:2]([OH:3])[CH3:4]")
    (of_ketone,), of_product = changes([ketone], made)
    assert marked(ketone, of_ketone) == ({"C1", "O2"}, {"1-2"})
    assert marked(made, of_product) == ({"C1", "O2"}, {"1-2"})


def test_what_has_nothing_in_common_changes_whole() -> None:
    salt, made = Chem.MolFromSmiles("[Cl-]"), Chem.MolFromSmiles("CCO")
    (of_salt,), of_product = changes([salt], made)
    assert of_salt.atoms == {0}
    assert of_product.atoms == {0, 1, 2}


def test_nothing_changes_in_the_same_molecule() -> None:
    benzene = Chem.MolFromSmiles("c1ccccc1C")
    (of_one,), of_other = changes([benzene], Chem.MolFromSmiles("Cc1ccccc1"))
    assert (of_one, of_other) == (Change(), Change())
