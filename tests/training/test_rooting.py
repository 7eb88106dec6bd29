"""Root-aligned pairs: source and target are written from the same atom."""

from itertools import islice
from random import Random

import pytest

from molspec.text import canonicalise
from molspec.training import rooting
from molspec.training.reactions import Reaction, read_rows
from molspec.training.rooting import Molecule, align, product_to_reactants, reactants_to_product
from molspec.training.sample import FILE
from tests import refused

#: An amide from acid and amine; the product has no atom of the base.
AMIDE = (
    "[CH3:1][C:2](=[O:3])O.[NH2:4][CH2:5][c:6]1[cH:7][cH:8][cH:9][cH:10][cH:11]1"
    ">CCN(CC)CC>[CH3:1][C:2](=[O:3])[NH:4][CH2:5][c:6]1[cH:7][cH:8][cH:9][cH:10][cH:11]1"
)


def sample_reactions(count: int) -> list[Reaction]:
    return [Reaction.parse(row.reaction) for row in islice(read_rows(FILE), count)]


def test_map_numbers_follow_the_canonical_order_of_atoms() -> None:
    molecule = Molecule.parse("[OH:3][C:2](=[O:7])[CH3:1]")
    assert molecule.smiles == "CC(=O)O"
    assert molecule.map_numbers == (1, 2, 7, 3)
    assert molecule.write_from(3) == ("OC(C)=O", [3, 1, 0, 2])


def test_error_says_why_a_molecule_is_invalid() -> None:
    refused(rooting.UnfitReactionError, "not a molecule to RDKit", Molecule.parse, "C(C")
    refused(rooting.UnfitReactionError, "blanks or other characters", Molecule.parse, "C C O")


def test_retro_pairs_of_a_known_reaction() -> None:
    reaction = Reaction.parse(AMIDE)
    pairs = product_to_reactants(reaction.products[0], reaction.reactants, 20, Random(0))
    assert pairs[0] == ("CC(=O)NCc1ccccc1", "CC(=O)O.NCc1ccccc1")
    assert ("N(Cc1ccccc1)C(C)=O", "NCc1ccccc1.C(C)(=O)O") in pairs
    assert len(pairs) == len(set(pairs)) == 9  # 11 atoms, with two symmetric pairs


def test_product_is_written_from_the_first_surviving_source_atom() -> None:
    reaction = Reaction.parse(AMIDE)
    molecules = reaction.reactants + reaction.agents
    pairs = reactants_to_product(molecules, reaction.products, 5, Random(0))
    assert pairs[0] == ("CC(=O)O.CCN(CC)CC.NCc1ccccc1", "CC(=O)NCc1ccccc1")
    assert len(pairs) == 5
    for source, target in pairs:
        assert canonicalise(source) == canonicalise(pairs[0][0])
        assert canonicalise(target) == pairs[0][1]


@pytest.mark.parametrize(
    "maps",
    [
        (  # either side of an anhydride
            "[CH3:1][C:2](=[O:3])OC(C)=O.[OH:4][CH3:5]>>[CH3:1][C:2](=[O:3])[O:4][CH3:5]",
            "CC(=O)O[C:2]([CH3:1])=[O:3].[OH:4][CH3:5]>>[CH3:1][C:2](=[O:3])[O:4][CH3:5]",
        ),
        (  # either ester of two
            "C[O:1][C:2](=[O:3])[CH2:4][C:5](=[O:6])[O:7][CH3:8]>>"
            "[OH:1][C:2](=[O:3])[CH2:4][C:5](=[O:6])[O:7][CH3:8]",
            "[CH3:8][O:7][C:5](=[O:6])[CH2:4][C:2](=[O:3])[O:1]C>>"
            "[OH:1][C:2](=[O:3])[CH2:4][C:5](=[O:6])[O:7][CH3:8]",
        ),
        (  # either of two equal molecules
            "[CH3:1][NH2:2].CN.Cl[CH2:3][CH3:4]>>[CH3:1][NH:2][CH2:3][CH3:4]",
            "CN.[CH3:1][NH2:2].Cl[CH2:3][CH3:4]>>[CH3:1][NH:2][CH2:3][CH3:4]",
        ),
    ],
)
def test_maps_of_symmetric_atoms_give_the_same_pairs(maps: tuple[str, str]) -> None:
    one, other = (
        reactants_to_product(reaction.reactants, reaction.products, 30, Random(1))
        for reaction in map(Reaction.parse, maps)
    )
    assert one == other
    assert one[0][1][0] == one[0][0][0] == "C"


def test_unmapped_reaction_gives_one_canonical_pair() -> None:
    for before in ("OC(C)=O.NCC", "NCC.OC(C)=O"):
        reaction = Reaction.parse(f"{before}>>CC(=O)NCC")
        pairs = product_to_reactants(reaction.products[0], reaction.reactants, 20, Random(0))
        assert pairs == [("CCNC(C)=O", "CC(=O)O.CCN")]


def test_variants_of_real_reactions_have_the_same_molecules() -> None:
    for number, reaction in enumerate(sample_reactions(60)):
        product = reaction.products[0]
        reactants = canonicalise(".".join(molecule.smiles for molecule in reaction.reactants))
        pairs = product_to_reactants(product, reaction.reactants, 6, Random(number))
        assert pairs[0][0] == product.smiles
        assert len({source for source, _ in pairs}) == len(pairs) > 1
        for source, target in pairs:
            assert canonicalise(source) == product.smiles
            assert canonicalise(target) == reactants


def test_real_targets_begin_with_the_first_shared_atom() -> None:
    """A target begins with the first atom of the source that it contains."""
    for reaction in sample_reactions(60):
        product = reaction.products[0]
        numbers = {number for molecule in reaction.reactants for number in molecule.map_numbers}
        for root in range(len(product.map_numbers)):
            _, order = product.write_from(root)
            written = [product.map_numbers[atom] for atom in order]
            first = next(number for number in written if number in numbers)
            reactant = next(m for m in reaction.reactants if first in m.map_numbers)
            expected, _ = reactant.write_from(reactant.map_numbers.index(first))
            assert align([{number} for number in written], reaction.reactants).startswith(expected)
