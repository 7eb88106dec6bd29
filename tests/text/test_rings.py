"""No text of a stranger keeps RDKit busy: its rings are counted before it looks for them."""

import pytest
from rdkit import rdBase

from molspec.text import InvalidSmilesError, canonical_query, too_many_rings
from molspec.text.salts import main_component
from tests.refusals import refused


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
    refused(InvalidSmilesError, "more than 50000 shortest rings", canonical_query, text)
    assert main_component(f"{text}.Cl") == (f"{text}.Cl", ())


@pytest.mark.parametrize("smiles", ["o1co" + "*" * 40 + "1", "c1ccccc1" + "[*:1]" * 13])
def test_many_unknown_atoms_beside_aromatic_ones_are_refused(smiles: str) -> None:
    refused(InvalidSmilesError, "unknown atoms beside aromatic ones", canonical_query, smiles)
    assert too_many_rings("*" * 40) is None
    assert too_many_rings("c1ccccc1" + "*" * 12) is None


def test_a_text_with_more_rings_than_any_molecule_is_refused() -> None:
    refused(InvalidSmilesError, "200 rings, more than 150", canonical_query, "C1CC1" * 200)


@pytest.mark.parametrize(
    "smiles",
    [
        "C1CC1" * 150,
        para_phenylenes(12),
        pytest.param(
            circulant(60, 11),
            marks=pytest.mark.skipif(
                rdBase.rdkitVersion < "2024", reason="RDKit 2023 finds too many rings there"
            ),
        ),
        "[13C]" * 200,
        # Buckminsterfullerene.
        "c12c3c4c5c1c1c6c7c2c2c8c3c3c9c4c4c%10c5c5c1c1c6c6c%11c7c2c2c7c8c3c3c8c9c4c4c9c%10c5c5c1"
        "c1c6c6c%11c2c2c7c3c3c8c4c4c9c5c1c1c6c2c3c41",
    ],
)
def test_molecules_with_many_rings_are_read(smiles: str) -> None:
    assert too_many_rings(smiles) is None
    assert canonical_query(smiles)
