"""Oxygens that can be mapped either way give one product spelling."""

from random import Random

import pytest

from molspec.training import oxygens, reactions, rooting


def pairs_of(text: str, count: int = 30) -> list[tuple[str, str]]:
    reaction = reactions.Reaction.parse(text)
    before, after = oxygens.map_by_bonds(reaction.reactants, reaction.products)
    return rooting.reactants_to_product(before, after, count, Random(1))


@pytest.mark.parametrize(
    ("product", "maps"),
    [
        (  # hydrolysis: the acid's hydroxyl group from the ester, from water, or from nowhere
            "OC(=O)CBr",
            [
                "C[O:1][C:2](=[O:3])[CH2:4]Br.O>>[OH:1][C:2](=[O:3])[CH2:4]Br",
                "C[O:1][C:2](=[O:3])[CH2:4]Br.O>>[OH:3][C:2](=[O:1])[CH2:4]Br",
                "CO[C:2](=[O:3])[CH2:4]Br.[OH2:1]>>[OH:1][C:2](=[O:3])[CH2:4]Br",
                "C[O:1][C:2](=O)[CH2:4]Br.O>>[OH][C:2](=[O:1])[CH2:4]Br",
            ],
        ),
        (  # an amide from an ester keeps the double bond's oxygen alone
            "CNC(=O)CBr",
            [
                "CO[C:2](=[O:1])[CH2:4]Br.[NH2:5][CH3:6]>>[O:1]=[C:2]([CH2:4]Br)[NH:5][CH3:6]",
                "C[O:1][C:2](=O)[CH2:4]Br.[NH2:5][CH3:6]>>[O:1]=[C:2]([CH2:4]Br)[NH:5][CH3:6]",
            ],
        ),
        (  # oxidation of an aldehyde: its oxygen stays a double bond's
            "O=C(O)CBr",
            [
                "[O:1]=[CH:2][CH2:4]Br>>[O:1]=[C:2](O)[CH2:4]Br",
                "[O:1]=[CH:2][CH2:4]Br>>O=[C:2]([OH:1])[CH2:4]Br",
            ],
        ),
        (  # an anhydride with a bridge: either half, and the oxygen of its other side
            "CC(C)(C)OC(=O)NCC",
            [
                "[CH3:1][C:2]([CH3:3])([CH3:4])[O:5][C:6](=[O:7])OC(=O)OC(C)(C)C.[NH2:8][CH2:9][CH3:10]"
                ">>[CH3:1][C:2]([CH3:3])([CH3:4])[O:5][C:6](=[O:7])[NH:8][CH2:9][CH3:10]",
                "CC(C)(C)OC(=O)O[C:6](=[O:7])[O:5][C:2]([CH3:1])([CH3:3])[CH3:4].[NH2:8][CH2:9][CH3:10]"
                ">>[CH3:1][C:2]([CH3:3])([CH3:4])[O:5][C:6](=[O:7])[NH:8][CH2:9][CH3:10]",
            ],
        ),
    ],
)
def test_maps_of_one_group_give_the_same_pairs(product: str, maps: list[str]) -> None:
    first, *others = map(pairs_of, maps)
    canonical_source, target = first[0]
    assert target == product
    assert all(pairs == first for pairs in others), canonical_source


def test_oxygen_of_an_alcohol_keeps_its_number() -> None:
    reaction = reactions.Reaction.parse(
        "[CH3:5][OH:6].[O:1]=[C:2]([OH:3])[CH3:4]>>[O:3]=[C:2]([O:6][CH3:5])[CH3:4]"
    )
    before, after = oxygens.map_by_bonds(reaction.reactants, reaction.products)
    assert [molecule.map_numbers for molecule in before] == [(5, 6), (4, 2, -5, -4)]
    assert [molecule.map_numbers for molecule in after] == [(5, 6, 2, 4, -5)]


@pytest.mark.parametrize(
    "reaction",
    [
        "[CH3:1][C:2](=[O:3])[CH3:4]>>[CH3:1][CH:2]([OH:3])[CH3:4]",  # one oxygen
        "[O:1]=[C:2]([OH:3])[CH3:4].[CH3:2]O>>[O:3]=[C:2]([O:1]C)[CH3:4]",  # a number twice
        "CC(=O)OC>>CC(=O)O",  # no maps
        # a spectator nitrate whose three oxygens are mapped as they are bound
        "[O:1]=[N+:2]([O-:3])[O:4][CH2:5][CH2:6]Br.[NH3:8]>>"
        "[O:1]=[N+:2]([O-:3])[O:4][CH2:5][CH2:6][NH2:8]",
    ],
)
def test_other_maps_stay(reaction: str) -> None:
    parsed = reactions.Reaction.parse(reaction)
    before, after = oxygens.map_by_bonds(parsed.reactants, parsed.products)
    assert [each.map_numbers for each in before] == [each.map_numbers for each in parsed.reactants]
    assert [each.map_numbers for each in after] == [each.map_numbers for each in parsed.products]
