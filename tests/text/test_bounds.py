"""No text of a stranger keeps RDKit busy or ends the process: it is bounded before RDKit reads."""

import ast
import re
from pathlib import Path

import pytest
from rdkit import rdBase
from rdkit.Chem import MolFromSmiles, MolToInchi

import molspec
from molspec.files import open_source, sdf
from molspec.text import bounds, canonical_query, canonicalise, molecules, rxn, salts
from molspec.text.smiles import InvalidSmilesError
from tests import refused, tiny


def circulant(atoms: int, step: int) -> str:
    """A ring of atoms, each with bonds to those `step` places before and after it."""
    pairs = [(i, (i + step) % atoms) for i in range(atoms)] + [(0, atoms - 1)]
    free, opened = list(range(99, 9, -1)), dict[int, int]()
    text = ""
    for atom in range(atoms):
        text += "C"
        for number, pair in enumerate(pairs):
            if atom in pair:
                if number in opened:
                    free.append(opened[number])
                else:
                    opened[number] = free.pop()
                text += f"%{opened[number]}"
    return text


def para_phenylenes(count: int) -> str:
    """A hoop of benzene rings, each of which doubles the number of large rings."""
    middle = "-c1ccc(cc1)" * (count - 2)
    return f"c1%50ccc(cc1){middle}-c1ccc%50cc1"


@pytest.mark.parametrize("step", [15, 17, 23])
def test_a_text_with_millions_of_rings_is_refused(step: int) -> None:
    """RDKit takes minutes and gigabytes for some of them, which have 48 atoms."""
    text = circulant(48, step)
    parts = text.replace("C", "(C.C)C").removeprefix("(C.C)")  # of few closures each
    for each in (text, parts):
        refused(InvalidSmilesError, "more than 50000 shortest rings", canonical_query, each)
    assert salts.main_component(f"{text}.Cl") == (f"{text}.Cl", ())


@pytest.mark.parametrize("piece", ["[#6]", "C~[Fe]", "N->[Fe]", "aspirin ", "[U]", "C ", "1-2,"])
def test_an_error_shows_only_the_beginning_of_a_long_text(piece: str, tmp_path: Path) -> None:
    text, model = piece * 100_000, tiny.model()
    (path := tmp_path / "a.smi").write_text(f"{text}\nInChI={text}\nC {text}\n{text} N\n")
    with open_source(str(path)) as source:
        told = [str(query.error) for query in source.queries(None)]
    told += [str(each.error) for each in model.log_probs([text, "C"], ["C", f"InChI={text}"])]
    for option in ("target_prefix", "drafter", "search", text):
        with pytest.raises((ValueError, TypeError)) as raised:
            model.predict(["CC"], **{option: text})
        told.append(str(raised.value))
    assert max(map(len, told)) < 600


@pytest.mark.parametrize("smiles", ["o1co" + "*" * 40 + "1", "c1ccccc1" + "[*:1]" * 13])
def test_many_unknown_atoms_beside_aromatic_ones_and_many_rings_are_refused(smiles: str) -> None:
    refused(InvalidSmilesError, "unknown atoms beside aromatic ones", canonical_query, smiles)
    assert bounds.too_large("*" * 40) is None
    assert bounds.too_large("c1ccccc1" + "*" * 12) is None
    refused(InvalidSmilesError, "200 rings, more than 150", canonical_query, "C1CC1" * 200)


@pytest.mark.parametrize(
    "smiles",
    [
        *("C1CC1" * 150, para_phenylenes(12)),
        pytest.param(
            circulant(60, 11),
            marks=pytest.mark.skipif(
                rdBase.rdkitVersion < "2024", reason="RDKit 2023 finds too many rings there"
            ),
        ),
        "[13C]" * 200,
        ".".join(["C1CC1"] * 150),
        # Buckminsterfullerene.
        "c12c3c4c5c1c1c6c7c2c2c8c3c3c9c4c4c%10c5c5c1c1c6c6c%11c7c2c2c7c8c3c3c8c9c4c4c9c%10c5c5c1"
        "c1c6c6c%11c2c2c7c3c3c8c4c4c9c5c1c1c6c2c3c41",
    ],
)
def test_molecules_with_many_rings_are_read(smiles: str) -> None:
    assert bounds.too_large(smiles) is None
    assert canonical_query(smiles)


@pytest.mark.parametrize("piece", ["C", "C(", "N(C)", "CCO", "[13CH2]", "Br", "C=C", "*"])
def test_a_text_with_more_atoms_than_rdkit_can_write_is_refused(piece: str) -> None:
    for count, message in ((4001, "atoms, more than 4,000"), (1 << 20, "characters, more than")):
        assert message in str(bounds.too_large(piece * count)).replace("atoms or bonds", "atoms")
        assert canonicalise(piece * count) is None
    assert bounds.too_large(piece * 1000) is None
    assert bounds.too_large(f"{'N[C@@H](CCC(N)=O)C(=O)' * 400}O") is None  # a protein


def test_a_structure_of_a_file_is_bounded_by_what_it_says() -> None:
    block = "\n\n\n  0  0  0     0  0            999 V3000\nM  V30 BEGIN CTAB\n"
    counts = "M  V30 COU-\nM  V30 NTS 99999999 0 0 0 0\n", "M  V30 COUNTS 1 9999999999 0 0 0\n"
    for lines in ([*(block + said).splitlines(True), "M  END\n"] for said in counts):
        (query,) = sdf.read_records(iter(lines))
        assert "99,999 atoms or bonds, more than 4,000" in str(query.error)
        assert [*rxn.read_rxn(iter(["$RXN V3000\n", *lines]))] == [("", "")]


def test_inchi_with_many_rings_or_other_layers_is_refused() -> None:
    hoop = MolToInchi(MolFromSmiles(para_phenylenes(10)))
    assert molecules.read_inchi(hoop) is not None
    joined = hoop.replace("/c1-2-", "/c1-2-1-2-1-2-1-2-1-")
    assert "InChI of 4,000 atoms" in str(bounds.inchi_too_large("InChI=1S/2C1000H2002.5C400H802"))
    for text in (joined, hoop.replace("=1S/", "=1/"), f"{hoop}/f/h1H", f"{hoop}/{'c' * 40_000}"):
        assert bounds.inchi_too_large(text)
        assert molecules.read_inchi(text) is None


def test_rdkit_is_given_text_in_few_places() -> None:
    found = set()
    for path in Path(molspec.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
            if re.search("From(Smiles|Mol|Inchi|Rxn)", name) or name == "SDMolSupplier":
                found.add((path.stem, name))
    assert found == {
        *(("bounds", "MolFromSmiles"), ("molecules", "MolFromSmiles"), ("sdf", "SDMolSupplier")),
        *(("smiles", "AtomFromSmiles"), ("variation", "MolFromSmiles")),  # of its own groups
        ("molecules", "MolFromInchi"),
    }
