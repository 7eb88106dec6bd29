import pytest

from molspec.text.salts import without_salts


@pytest.mark.parametrize(
    ("smiles", "parent", "removed"),
    [
        ("CC(=O)Oc1ccccc1C(=O)[O-].[Na+]", "CC(=O)Oc1ccccc1C(=O)O", ("[Na+]",)),
        ("CC[NH3+].[Cl-]", "CCN", ("[Cl-]",)),
        ("CCN.Cl.Cl", "CCN", ("Cl", "Cl")),
        ("[O-][N+](=O)c1ccccc1.O", "O=[N+]([O-])c1ccccc1", ("O",)),
        ("C[N+](C)(C)C.[I-]", "C[N+](C)(C)C", ("[I-]",)),
        ("CCO", "CCO", ()),
        ("NCCN.CCCCCCO", "NCCN.CCCCCCO", ()),
        ("X.[Na+]", "X.[Na+]", ()),
        ("", "", ()),
    ],
)
def test_counter_ions_go(smiles: str, parent: str, removed: tuple[str, ...]) -> None:
    assert without_salts(smiles) == (parent, removed)


def test_something_stays() -> None:
    parent, removed = without_salts("[Na+].[Cl-]")
    assert parent in ("[Na+]", "Cl", "[Cl-]")
    assert len(removed) == 1
