"""Reaction files of several kinds."""

from pathlib import Path

import pytest

from molspec.common.task import Task
from molspec.training.reactions import Reaction, Row, read_rows
from molspec.training.rooting import UnfitReactionError
from tests import refused

FIRST, SECOND = "CO.CC(=O)Cl>N>CC(=O)OC", "CCO>>CC=O"


def rows(
    path: Path, column: str | None = None, task: Task | None = "product"
) -> list[tuple[int, str]]:
    return [(row.number, row.reaction) for row in read_rows(path, column, task)]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("lines.smi", f"{FIRST}\n\n{SECOND} |f:0.1|\n", [(1, FIRST), (3, SECOND)]),
        ("first.smi", f">>CCO\n{FIRST}\nCC>>\n", [(1, ">>CCO"), (2, FIRST), (3, "CC>>")]),
        ("named.txt", f"{FIRST}\tone\n{SECOND}\ttwo\n", [(1, FIRST), (2, SECOND)]),
        ("table.tsv", f"id\trxn\n1\t{FIRST}\n2\t{SECOND}\n", [(2, FIRST), (3, SECOND)]),
        ("graph.csv", f'id,"reactants>reagents>production"\n"a, b",{FIRST}\n', [(2, FIRST)]),
        (
            "sides.tsv",
            f"src\ttgt\tmapped_rxn\nCCO\tCC=O\t\nCO.CC(=O)Cl\tCC(=O)OC\t{FIRST}\n",
            [(2, SECOND), (3, FIRST)],
        ),
        ("marked.tsv", f"\ufeffReaction \tid\r\n{FIRST}\t1\r\n", [(2, FIRST)]),
        ("spaced.csv", "\ufeffReactants, Product\nCCO,CC=O\n", [(2, SECOND)]),
        (
            "numbered.csv",
            "agent_000,reactant_000,Reactant 1,product_000\nN,CO,CCl,COC\n,,CCO,CC=O\n",
            [(2, "CO.CCl>N>COC"), (3, "CCO>>CC=O")],
        ),
        ("r.tsv", "reactants\tproduct\n1\tCCO\tCC=O\n", [(2, SECOND)]),
        ("bad.tsv", f"rxn\n{FIRST}\nnothing\n", [(2, FIRST), (3, "nothing")]),
    ],
)
def test_read_rows(tmp_path: Path, name: str, text: str, expected: list[tuple[int, str]]) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert rows(path) == expected


def test_column_is_selected_by_name(tmp_path: Path) -> None:
    table, lines, other = (tmp_path / name for name in ("two.tsv", "lines.smi", "other.tsv"))
    table.write_text(f"raw\tclean\n{FIRST}\t{SECOND}\n")
    assert rows(table) == [(2, FIRST)]
    assert rows(table, "clean") == [(2, SECOND)]
    refused("reaction_column is 'dirty': .* raw, clean", rows, table, "dirty")
    lines.write_text(FIRST)
    refused("reaction_column is 'rxn': .* which is empty", rows, lines, "rxn")
    other.write_text("name\tsmiles\nethanol\tCCO\n")
    refused("no reaction SMILES in its first rows .* header, name, smiles", rows, other)


@pytest.mark.parametrize("names", ["src\ttgt", "source\ttarget"])
def test_task_decides_which_column_is_the_product(tmp_path: Path, names: str) -> None:
    path = tmp_path / "ends.tsv"
    path.write_text(f"{names}\nCC=O\tCCO\n")
    assert rows(path, task="retro") == [(2, SECOND)]
    assert rows(path, task="product") == [(2, "CC=O>>CCO")]
    refused("no reaction SMILES", rows, path, task=None)
    path.write_text("product\treactants\nCC=O\tCCO\n")
    assert rows(path, task="retro") == rows(path, task="product") == [(2, SECOND)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CCO", "not a reaction SMILES"),
        (">>CCO", "no reactants"),
        ("CCO.Cl>>CCO", "no new product"),
        ("CCO>>", "no new product"),
        ("CCO>>C1CC", "not a molecule to RDKit"),
    ],
)
def test_error_says_why_a_reaction_is_unfit(text: str, reason: str) -> None:
    refused(UnfitReactionError, reason, Reaction.parse, text)


def test_ions_that_a_tilde_joins_are_molecules() -> None:
    reaction = Reaction.parse("CC(=O)Cl.Nc1ccccc1.[K+]~[K+]~O=C([O-])[O-]>[Na+]~[OH-]>CC=O")
    smiles = [molecule.smiles for molecule in reaction.reactants + reaction.agents]
    assert sorted(smiles[2:]) == ["O=C([O-])[O-]", "[K+]", "[K+]", "[Na+]", "[OH-]"]
    refused(UnfitReactionError, "a bond ~ within a molecule", Reaction.parse, "C1~CC~1.CCO>>CC=O")
    refused(UnfitReactionError, "at a metal without charge", Reaction.parse, "CCBr.CO~[Pd]>>CCOC")


DATIVE = (
    "CCO.CC(=O)O>CC(=O)[O-]->[Pd+2]<-[O-]C(C)=O>CCOC(C)=O",
    "Cl[Ni-2](Cl)<-[P+](C)(C)C.CCO>>CC=O",
    "CCO.[NH3]->[Pd](Cl)Cl>>CC=O",
)


@pytest.mark.parametrize("reaction", DATIVE)
def test_a_dative_bond_is_no_arrow(reaction: str, tmp_path: Path) -> None:
    (tmp_path / "a.rsmi").write_text(f"{reaction}\nCCO>>CC=O\n")
    assert [row.reaction for row in read_rows(tmp_path / "a.rsmi")] == [reaction, "CCO>>CC=O"]
    refused(UnfitReactionError, "^a dative bond$", Reaction.parse, reaction)
    assert not Row("a", 1, reaction).is_mapped
