"""One form, whichever RDKit is installed: the expected texts are those of RDKit 2026.9."""

import pytest
from rdkit import Chem

from molspec.text import canonicalise, molecules, other_spellings, rooted_spellings, write_smiles
from molspec.text.salts import main_component
from molspec.training.rooting import Molecule

METALS = {
    "CC(=O)c1ccccc1.C[Mg]Br": "CC(=O)c1ccccc1.[CH3][Mg][Br]",
    "C=O.Br[Mg]c1ccccc1": "C=O.[Br][Mg][c]1ccccc1",
    "Cl[Sn]Cl.Cl": "Cl.[Cl][Sn][Cl]",  # the order of molecules follows
    "CC[Zn]CC": "C[CH2][Zn][CH2]C",
    "CC(C)(C)O[K]": "CC(C)(C)[O][K]",
    "CCCC[Sn](CCCC)(CCCC)c1ccccc1": "CCC[CH2][Sn]([CH2]CCC)([CH2]CCC)[c]1ccccc1",
    "C1=CC=C[CH]1[Fe]C1C=CC=C1": "C1=C[CH]([Fe][CH]2C=CC=C2)C=C1",
    "O=[Mn](=O)(=O)[O-].[K+]": "[K+].[O]=[Mn](=[O])(=[O])[O-]",
    "[Na]n1cccc1": "[Na][n]1cccc1",
    "*[Mg]C#C": "[*][Mg][C]#C",
    "[13CH3][Mg]I": "[13CH3][Mg][I]",
    "C[Si](C)(C)N([Li])[Si](C)(C)C": "[Li][N]([Si](C)(C)C)[Si](C)(C)C",
    "C[Si](C)(C)C.C[As](C)C.C[Te]C": "C[As](C)C.C[Si](C)(C)C.C[Te]C",  # not metals
    "[Na+].[Cl-]": "[Cl-].[Na+]",
    "B1OB(C)O1": "CB1OBO1",
}
MARKS = {
    "C(=C/c1ccccn1)\\c1ccccc1": "C(=C\\c1ccccn1)/c1ccccc1",
    "C(\\Cc1ccccc1)=N\\Nc1ccncc1": "C(/Cc1ccccc1)=N/Nc1ccncc1",
    "CCOc1c(/C(C)=C(F)\\C=C\\C(C)=C\\C(=O)O)cccc1": "CCOc1ccccc1\\C(C)=C(F)/C=C/C(C)=C/C(=O)O",
    "CCC/C=C\\C/C=C\\C=C\\C=C\\[C@@H](S)CC": "CCC/C=C\\C\\C=C/C=C/C=C/[C@@H](S)CC",
    "CC(=C\\C(=O)N)/C(F)=C/C": "C/C=C(F)/C(C)=C/C(N)=O",
    "F/C=C\\F": "F/C=C\\F",
    "C/C=C/[Sn](C)(C)C": "C/C=[CH]/[Sn]([CH3])([CH3])[CH3]",
}


@pytest.mark.parametrize(("given", "expected"), [*METALS.items(), *MARKS.items()])
def test_form_is_that_of_the_newest_rdkit(given: str, expected: str) -> None:
    assert canonicalise(given) == expected
    assert canonicalise(expected) == expected


@pytest.mark.parametrize("expected", [*METALS.values(), *MARKS.values()])
def test_an_older_rdkit_gives_the_same(expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is changed for an older one leaves the newest form as it is, from every atom."""
    molecule = Chem.MolFromSmiles(expected)
    roots = range(-1, molecule.GetNumAtoms() if "." not in expected else 0)
    texts = [write_smiles(molecule, root) for root in roots]
    monkeypatch.setattr(molecules, "_IS_NEW", False)
    assert [write_smiles(molecule, root) for root in roots] == texts


def test_valences_are_those_of_the_newest_rdkit() -> None:
    phosphorus = "F[PH](F)(F)(F)(F)F FP(F)(F)(F)(F)F F[P+](F)(F)(F)F"
    for smiles in (*phosphorus.split(), "Cl[Al-](Cl)(Cl)(Cl)(Cl)Cl"):
        assert canonicalise(smiles) is None
    ions = "F[P-](F)(F)(F)(F)F F[Sb-](F)(F)(F)(F)F FP(F)(F)(F)F C[P+](C)(C)C [BiH3] C[Al-](C)(C)C"
    assert None not in map(canonicalise, ions.split())


def test_spellings_and_training_pairs_have_this_form() -> None:
    zinc = "C[CH2][Zn][CH2]C"
    assert set(other_spellings(zinc, 4)) == {"[CH2](C)[Zn][CH2]C", "[Zn]([CH2]C)[CH2]C"}
    assert "[Zn]([CH2]C)[CH2]C" in rooted_spellings("CC[Zn]CC")
    assert Molecule.parse("CC[Zn]CC").smiles == zinc
    assert Molecule.parse("CC[Zn]CC").write_from(2)[0] == "[Zn]([CH2]C)[CH2]C"
    assert main_component("CC[Zn]CC.O") == (zinc, ("O",))
