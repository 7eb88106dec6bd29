import pytest
from rdkit import Chem

from molspec.server.reaction_center import Change, changes
from molspec.text import correspondence


def marked(molecule: Chem.Mol, change: Change) -> tuple[set[str], set[str]]:
    """The symbols and indices of the changed atoms, and the end atoms of the changed bonds."""
    atoms = {f"{molecule.GetAtomWithIdx(i).GetSymbol()}{i}" for i in change.atoms}
    bonds = {molecule.GetBondWithIdx(i) for i in change.bonds}
    return atoms, {f"{bond.GetBeginAtomIdx()}-{bond.GetEndAtomIdx()}" for bond in bonds}


@pytest.mark.parametrize("mapped", [False, True])
def test_amide_coupling_marks_its_changed_atoms_and_bonds(mapped: bool) -> None:
    if mapped:
        texts = ("[CH3:1][C:2](=[O:3])Cl", "[NH2:4][CH2:5][CH3:6]")
        product = "[CH3:1][C:2](=[O:3])[NH:4][CH2:5][CH3:6]"
    else:
        texts, product = ("CC(=O)Cl", "NCC"), "CC(=O)NCC"
    molecules = [Chem.MolFromSmiles(text) for text in texts]
    product_molecule = Chem.MolFromSmiles(product)
    (chloride_change, amine_change), product_change = changes(molecules, product_molecule)
    assert marked(molecules[0], chloride_change) == ({"C1", "Cl3"}, {"1-3"})
    assert marked(molecules[1], amine_change) == (set(), set())
    assert marked(product_molecule, product_change) == ({"C1", "N3"}, {"1-3"})


def test_a_changed_bond_order_is_marked() -> None:
    ketone = Chem.MolFromSmiles("[CH3:1][C:2](=[O:3])[CH3:4]")
    alcohol = Chem.MolFromSmiles("[CH3:1][CH:2]([OH:3])[CH3:4]")
    (ketone_change,), alcohol_change = changes([ketone], alcohol)
    assert marked(ketone, ketone_change) == ({"C1", "O2"}, {"1-2"})
    assert marked(alcohol, alcohol_change) == ({"C1", "O2"}, {"1-2"})


def test_unrelated_molecules_change_completely() -> None:
    chloride, product = Chem.MolFromSmiles("[Cl-]"), Chem.MolFromSmiles("CCO")
    (chloride_change,), product_change = changes([chloride], product)
    assert chloride_change.atoms == {0}
    assert product_change.atoms == {0, 1, 2}


def test_identical_molecules_have_no_changes() -> None:
    benzene = Chem.MolFromSmiles("c1ccccc1C")
    (first,), second = changes([benzene], Chem.MolFromSmiles("Cc1ccccc1"))
    assert (first, second) == (Change(), Change())


def test_a_bond_that_is_not_known_matches_nothing() -> None:
    (first,), second = changes([Chem.MolFromSmiles("C~C")], Chem.MolFromSmiles("CC"))
    assert (first.atoms, second.atoms) == ({0, 1}, {0, 1})


def test_searches_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many large reactants do not take a second each."""
    monkeypatch.setattr(correspondence, "perf_counter", iter([0.0, 0.5, 1.5, 2.5]).__next__)
    reactants = [Chem.MolFromSmiles(text) for text in ("CCCO", "CCN", "CS")]
    of_reactants, _ = changes(reactants, Chem.MolFromSmiles("CCCOCCNCS"))
    assert [len(change.atoms) for change in of_reactants] == [0, 3, 2]
