"""The molecule of a salt: counter-ions go, by a list; a reactant never does."""

import lzma
from pathlib import Path

import pytest

from molspec.text import canonicalise, salts
from molspec.training import sample
from tests import refused

#: Name, salt and drug of 200 marketed salts.
_DRUG_SALTS = Path(__file__).with_name("drug_salts.tsv")


@pytest.mark.parametrize(
    ("smiles", "parent", "removed"),
    [
        ("CC(=O)Oc1ccccc1C(=O)[O-].[Na+]", "CC(=O)Oc1ccccc1C(=O)O", ("[Na+]",)),
        ("CC[NH3+].[Cl-]", "CCN", ("[Cl-]",)),
        ("CCN.Cl.Cl.O", "CCN", ("Cl", "O")),
        ("[O-][N+](=O)c1ccccc1.O", "O=[N+]([O-])c1ccccc1", ("O",)),
        ("C[N+](C)(C)C.[I-]", "C[N+](C)(C)C", ("[I-]",)),
        ("CCO", "CCO", ()),
        ("NCCN.NCCN", "NCCN", ("NCCN",)),
        ("CCN.CCN.OS(=O)(=O)O", "CCN", ("O=S(=O)(O)O",)),
        ("CC[NH3+].CC(=O)[O-]", "CCN", ("CC(=O)[O-]",)),
        ("[Na+].CC(=O)[O-]", "CC(=O)O", ("[Na+]",)),
        ("[Na+].[Cl-]", "[Na+].[Cl-]", ()),
        ("[Na+].F[P-](F)(F)(F)(F)F", "[Na+].F[P-](F)(F)(F)(F)F", ()),
        ("CCN.F[P-](F)(F)(F)(F)F", "CCN", ("F[P-](F)(F)(F)(F)F",)),
        ("NCCc1ccccc1~Cl", "NCCc1ccccc1", ("Cl",)),
        ("CC(=O)O~[Pd]", "CC(=O)O~[Pd]", ()),  # a ligand, or another molecule
        ("X.[Na+]", "X.[Na+]", ()),
        ("C.\ud800", "C.\ud800", ()),
        ("CC(=O)Nc1ccccc1.Cl CCCC", "CC(=O)Nc1ccccc1.Cl CCCC", ()),  # a name is not part of it
        ("", "", ()),
    ],
)
def test_counter_ions_are_removed(smiles: str, parent: str, removed: tuple[str, ...]) -> None:
    assert salts.main_component(smiles) == (parent, removed)


#: Reactants: of amines with carboxylic acids, amides are made.
MIXTURES = (
    "CC(=O)Cl.Nc1ccccc1 CC(=O)O.OCC CCN.CC(=O)O CC(=O)[O-].[Na+].CCBr OCCc1ccccc1.Br Cl.CCCN.CCO "
    "[Na+].[N-]=[N+]=[N-].CCCBr [Na+].[I-].CCCCl [Na+].[OH-].CCC(=O)OC"
)


@pytest.mark.parametrize("smiles", MIXTURES.split())
def test_several_molecules_are_not_a_salt(smiles: str) -> None:
    refused(r"\d molecules that are not a salt, expected one", salts.main_component, smiles)


def test_reactants_do_not_lose_a_molecule() -> None:
    text = lzma.decompress(sample.FILE.read_bytes()).decode()
    reactants = [row.split("\t")[1].split(">")[0] for row in text.splitlines()[1:]]
    pairs = [each for each in reactants if each.count(".") == 1]
    lost = [index for index, pair in enumerate(pairs) if is_salt(pair)]
    assert min(lost) >= 200
    assert len(lost) <= len(pairs) // 200  # water that is added to a double bond


def is_salt(smiles: str) -> bool:
    try:
        salts.main_component(smiles)
    except ValueError:
        return False
    return True


def test_salts_of_drugs_are_their_drugs() -> None:
    rows = [row.split("\t") for row in _DRUG_SALTS.read_text().splitlines()[1:]]
    assert len(rows) >= 200
    kept = []
    for name, salt, drug in rows:
        try:
            parent, _ = salts.main_component(salt)
        except ValueError:
            parent = salt
        if canonicalise(parent) != drug:
            kept.append(name)
    # Their acids, without charge, are as usual beside amines as reactants.
    assert kept == ["alogliptin benzoate", "flecainide acetate"]


def test_a_long_text_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("molspec.text.salts.with_dots", None)
    text = "CC~C." * salts.LONGEST
    assert salts.main_component(text) == (text, ())
