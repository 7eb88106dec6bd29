import pytest
from rdkit import Chem

from molspec.text import correspondence
from molspec.text.correspondence import corresponding_atoms


def test_searches_end_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many large reactants do not take a second each."""
    monkeypatch.setattr(correspondence, "perf_counter", iter([0.0, 0.5, 1.5, 2.5]).__next__)
    product, *reactants = map(Chem.MolFromSmiles, ("CCCOCCNCS", "CCCO", "CCN", "CS"))
    assert len(corresponding_atoms(reactants, product)) == 4


@pytest.mark.parametrize(
    ("reaction", "broken"),
    [
        ("CCO.O=C(Cl)c1ccccc1>>CCOC(=O)c1ccccc1", (2, 3)),
        ("CO.O=C(Cl)c1ccccc1>>COC(=O)c1ccccc1", (1, 2)),
        ("CCO.O=C(O)c1ccccc1>>CCOC(=O)c1ccccc1", (2, 3)),
        ("CO.O=C(O)c1ccccc1>>COC(=O)c1ccccc1", (1, 2)),
        ("CCN(CC)CCO.Nc1ccc(C(=O)O)cc1>>CCN(CC)CCOC(=O)c1ccc(N)cc1", (7, 8)),
        ("CC(=O)OC(C)=O.OCCc1ccccc1>>CC(=O)OCCc1ccccc1", (1, 3)),
        ("CCBr.O=C(O)c1ccccc1>>CCOC(=O)c1ccccc1", (1, 2)),  # the acid has the only oxygen
        ("CCOS(C)(=O)=O.O=C([O-])C>>CCOC(C)=O", (1, 2)),
        ("CCN.O=C(O)c1ccccc1>>CCNC(=O)c1ccccc1", (2, 3)),
        ("CCCCCCCCO.Oc1ccccc1>>CCCCCCCCOc1ccccc1", (7, 8)),
        ("CCO.Cc1ccc(S(=O)(=O)Cl)cc1>>CCOS(=O)(=O)c1ccc(C)cc1", (2, 3)),
        ("CCO.Cc1ccc(S(=O)(=O)O)cc1>>CCOS(=O)(=O)c1ccc(C)cc1", (2, 3)),
    ],
)
def test_finds_the_bond_that_a_step_makes(reaction: str, broken: tuple[int, int]) -> None:
    left, right = reaction.split(">>")
    reactants, product = [*map(Chem.MolFromSmiles, left.split("."))], Chem.MolFromSmiles(right)
    same = corresponding_atoms(reactants, product)
    new = []
    for bond in product.GetBonds():
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        (first, a), (second, b) = (same[atom] for atom in ends)
        if first != second or reactants[first].GetBondBetweenAtoms(a, b) is None:
            new.append(ends)
    assert new == [broken]
