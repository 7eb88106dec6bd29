"""Variations of reactions: what changes in a reaction stays, and nothing near it is touched."""

from pathlib import Path
from random import Random

import pytest
from rdkit import Chem

from molspec.text import canonicalise
from molspec.training.reactions import Reaction
from molspec.training.variation import vary
from tests.conftest import Run
from tests.training.tiny import sample_reactions

AMIDE = (
    "[CH3:1][CH2:2][CH2:3][CH2:4][C:5](=[O:6])[Cl:20].[NH2:7][CH2:8][CH2:9][CH2:10][c:11]1"
    "[cH:12][cH:13][c:14]([F:15])[cH:16][cH:17]1>CCO>"
    "[CH3:1][CH2:2][CH2:3][CH2:4][C:5](=[O:6])[NH:7][CH2:8][CH2:9][CH2:10][c:11]1"
    "[cH:12][cH:13][c:14]([F:15])[cH:16][cH:17]1"
)
Bonds = set[tuple[int, int, str]]


def changed_bonds(reaction: str) -> Bonds:
    """The bonds between atoms of the products that only one side has."""
    left, _, right = reaction.split(">")
    products = Chem.MolFromSmiles(right)
    numbers = {atom.GetAtomMapNum() for atom in products.GetAtoms()}

    def bonds(molecule: Chem.Mol) -> Bonds:
        found = set()
        for bond in molecule.GetBonds():
            ends = (bond.GetBeginAtom().GetAtomMapNum(), bond.GetEndAtom().GetAtomMapNum())
            if numbers.issuperset(ends):
                found.add((min(ends), max(ends), str(bond.GetBondType())))
        return found

    return bonds(Chem.MolFromSmiles(left)) ^ bonds(products)


def near(side: str) -> dict[int, tuple[object, ...]]:
    """The atoms with fewer than three bonds to the new one, by map number."""
    return {
        atom.GetAtomMapNum(): (atom.GetSymbol(), atom.GetDegree(), atom.GetTotalNumHs())
        for atom in Chem.MolFromSmiles(side).GetAtoms()
        if 3 <= atom.GetAtomMapNum() <= 9
    }


def test_the_change_stays_the_same() -> None:
    rows = sample_reactions(60)
    for number, reaction in enumerate(rows):
        variations = vary(reaction, 4, Random(number))
        assert len(set(variations)) == len(variations) <= 4
        assert reaction not in variations
        for variation in variations:
            assert changed_bonds(variation) == changed_bonds(reaction)
            Reaction.parse(variation)
    assert sum(bool(vary(reaction, 1, Random(0))) for reaction in rows) > 50


def test_only_far_atoms_change_and_agents_stay() -> None:
    variations = vary(AMIDE, 40, Random(1))
    assert len(variations) == 40
    for variation in variations:
        for side, own in zip(variation.split(">"), AMIDE.split(">"), strict=True):
            assert near(side) == near(own)
    assert {variation.split(">")[1] for variation in variations} == {"CCO"}
    assert vary(AMIDE, 3, Random(2)) == vary(AMIDE, 3, Random(2)) != vary(AMIDE, 3, Random(3))


@pytest.mark.parametrize(
    "reaction",
    [
        "CCO.CC(=O)Cl>>CCOC(C)=O",
        "[CH3:1][OH:2]>>[CH3:1][O:2]C",
        AMIDE.replace(":16]", ":17]"),
        "X>>Y",
        "CCO",
        "",
    ],
    ids=["no maps", "nothing far", "a number twice", "no molecules", "no reaction", "empty"],
)
def test_others_have_no_variations(reaction: str) -> None:
    assert vary(reaction, 5, Random(0)) == []


def test_an_atom_alone_is_not_removed_with_its_neighbour() -> None:
    ethane = "[CH3:1][CH3:2].[CH3:10][CH2:11][Br:12].[NH3:13]"
    assert vary(f"{ethane}>>[CH3:1][CH3:2].[CH3:10][CH2:11][NH2:13]", 5, Random(0)) == []


def test_both_sides_have_the_same_stereo() -> None:
    """A centre may end to be one, if two of its groups become equal."""
    chiral = AMIDE.replace("[CH2:2]", "[C@H:2]([F:30])")
    variations = vary(chiral, 60, Random(4))
    sides = [[str(canonicalise(side)) for side in each.split(">")] for each in variations]
    assert all(("@" in left) == ("@" in right) for left, _, right in sides)
    assert sum("@" in left for left, _, _ in sides) > len(sides) / 2


def test_the_command_prints_what_prepare_reads(run: Run, tmp_path: Path) -> None:
    read, written = tmp_path / "in.rsmi", tmp_path / "out.rsmi"
    read.write_text(f"{AMIDE}\nCC>>CO\n{AMIDE}\n")
    printed = set()
    for workers in (1, 2):
        assert run(f"vary {read} --count 3 --workers {workers}") == 0
        assert run.err == "molspec: 6 variations of 2 of 3 reactions\n"
        printed.add(run.out)
    (text,) = printed
    assert len(set(text.splitlines())) == 6
    written.write_text(text)
    options = f"--task product --validation-share 0.4 --output {tmp_path / 'data'}"
    assert run(f"prepare {written} {options}") == 0
    assert "not aligned" not in run.out
