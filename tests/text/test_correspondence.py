import pytest
from rdkit import Chem

from molspec.text import correspondence
from molspec.text.correspondence import corresponding_atoms


def same(reactants: list[str], product: str) -> dict[int, tuple[int, int]]:
    return corresponding_atoms([*map(Chem.MolFromSmiles, reactants)], Chem.MolFromSmiles(product))


def test_atoms_of_an_amide_are_those_of_its_reactants() -> None:
    pairs = {0: (0, 0), 1: (0, 1), 2: (0, 2), 3: (1, 0), 4: (1, 1), 5: (1, 2)}
    assert same(["CC(=O)Cl", "NCC"], "CC(=O)NCC") == pairs


@pytest.mark.parametrize("reactant", ["[Cl-]", "C~C"])
def test_unrelated_molecules_correspond_nowhere(reactant: str) -> None:
    assert same([reactant], "CCO") == {}


def test_searches_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many large reactants do not take a second each."""
    monkeypatch.setattr(correspondence, "perf_counter", iter([0.0, 0.5, 1.5, 2.5]).__next__)
    assert len(same(["CCCO", "CCN", "CS"], "CCCOCCNCS")) == 4
