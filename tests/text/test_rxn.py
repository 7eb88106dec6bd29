"""Reactions with coordinates, as drawing programs and databases write them."""

from pathlib import Path

import pytest
from rdkit import Chem
from rdkit.Chem import rdChemReactions, rdDepictor

from molspec.files import Query, open_source
from molspec.text.rxn import read_rxn
from molspec.training.reactions import read_rows

REACTION = (
    "[CH3:1][C@H:2]([NH2:3])[C:4](=[O:5])[OH:6].O[CH2:10]/[CH:9]=[CH:8]/[CH3:7]>Cc1ccccc1>"
    "[CH3:1][C@H:2]([NH2:3])[C:4](=[O:5])[O:6][CH2:10]/[CH:9]=[CH:8]/[CH3:7]"
)
PRODUCT = "C/C=C/COC(=O)[C@H](C)N"


def block(newer: bool = False) -> str:
    reaction = rdChemReactions.ReactionFromSmarts(REACTION, useSmiles=True)
    for molecule in (*reaction.GetReactants(), *reaction.GetAgents(), *reaction.GetProducts()):
        Chem.SanitizeMol(molecule)
        rdDepictor.Compute2DCoords(molecule)
        Chem.WedgeMolBonds(molecule, molecule.GetConformer())
    text = str(rdChemReactions.ReactionToRxnBlock(reaction, True, newer))
    return text.replace("\n\n", "\nsalicin\n", 1)


def rdf(*blocks: str) -> str:
    records = (f"$RFMT $RIREG {n}\n{text}$DTYPE x\n$DATUM 7\n" for n, text in enumerate(blocks))
    return "".join(["$RDFILE 1\n$DATM 1\n", *records])


@pytest.mark.parametrize("newer", [False, True])
def test_a_reaction_keeps_its_stereo_its_maps_and_its_title(newer: bool) -> None:
    ((smiles, title),) = read_rxn(block(newer).splitlines(keepends=True))
    assert title == "salicin"
    assert smiles.split(">") == REACTION.split(">")


def test_a_damaged_record_does_not_affect_others() -> None:
    lines = rdf(block(), "$RXN\nbad\n\n\n  1  1\n$MOL\n", block(True)).splitlines(keepends=True)
    assert [(bool(smiles), title) for smiles, title in read_rxn(lines)] == [
        *((True, "salicin"), (False, "bad"), (True, "salicin"))
    ]


@pytest.mark.parametrize("name", ["a.rdf", "a.RXN"])
def test_files_are_queries_and_rows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(rdf(block(), "$RXN\nbad\n") if name == "a.rdf" else block())
    with open_source(str(path)) as source:
        first, *others = source.queries(task="retro")
        assert source.count() == 1 + len(others)
    assert first == Query(PRODUCT, "salicin")
    assert others in ([], [Query("", "bad", error="not a reaction to RDKit")])
    row = next(read_rows(path))
    assert (row.number, row.reaction) == (1, REACTION)
