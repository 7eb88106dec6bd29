import pytest

from molspec.text.salts import main_component


@pytest.mark.parametrize(
    ("smiles", "parent", "removed"),
    [
        ("CC(=O)Oc1ccccc1C(=O)[O-].[Na+]", "CC(=O)Oc1ccccc1C(=O)O", ("[Na+]",)),
        ("CC[NH3+].[Cl-]", "CCN", ("[Cl-]",)),
        ("CCN.Cl.Cl", "CCN", ("Cl",)),
        ("[O-][N+](=O)c1ccccc1.O", "O=[N+]([O-])c1ccccc1", ("O",)),
        ("C[N+](C)(C)C.[I-]", "C[N+](C)(C)C", ("[I-]",)),
        ("CCO", "CCO", ()),
        ("NCCN.CCCCCCO", "CCCCCCO", ("NCCN",)),
        ("CCN.CCN.OS(=O)(=O)O", "CCN", ("O=S(=O)(O)O",)),
        ("C[N+](C)(C)C.CCC(=O)[O-]", "CCC(=O)O", ("C[N+](C)(C)C",)),
        ("[Na+].F[P-](F)(F)(F)(F)F", "F[P-](F)(F)(F)(F)F", ("[Na+]",)),
        ("X.[Na+]", "X.[Na+]", ()),
        ("C.\ud800", "C.\ud800", ()),
        ("", "", ()),
    ],
)
def test_counter_ions_are_removed(smiles: str, parent: str, removed: tuple[str, ...]) -> None:
    assert main_component(smiles) == (parent, removed)


def test_one_component_remains() -> None:
    parent, removed = main_component("[Na+].[Cl-]")
    assert parent in ("[Na+]", "Cl", "[Cl-]")
    assert len(removed) == 1


def test_text_after_a_blank_is_no_name() -> None:
    text = "CC(=O)Nc1ccccc1.Cl CCCC"
    assert main_component(text) == (text, ())
