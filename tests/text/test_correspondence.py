import pytest
from rdkit import Chem

from molspec.text import correspondence
from molspec.text.correspondence import corresponding_atoms


def test_searches_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many large reactants do not take a second each."""
    monkeypatch.setattr(correspondence, "perf_counter", iter([0.0, 0.5, 1.5, 2.5]).__next__)
    product, *reactants = map(Chem.MolFromSmiles, ("CCCOCCNCS", "CCCO", "CCN", "CS"))
    assert len(corresponding_atoms(reactants, product)) == 4
