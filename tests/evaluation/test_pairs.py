import gzip
import os
from itertools import islice
from pathlib import Path

import pytest

from molspec.common.task import Task
from molspec.evaluation import Pair, PairTable
from tests import refused


def test_rows_are_read_twice_and_missing_cells_are_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbfclass\tsrc\ttgt\r\n1\tCO\t C \n\n2\tC\n3\t\tN\textra\n")
    table = PairTable(path)
    assert list(table) == list(table) == [Pair("CO", "C"), Pair("C", ""), Pair("", "N")]


@pytest.mark.parametrize(
    ("header", "task", "chosen"),
    [
        ("target query tgt src", None, ("src", "tgt")),
        ("target source", "retro", ("source", "target")),
        ("class reactants mapped product", "retro", ("product", "reactants")),
        ("class reactants mapped product", "product", ("reactants", "product")),
        ("Product tgt REACTANTS", "retro", ("Product", "tgt")),
        ("target query", None, ("query", "target")),
        ("id source products reactants", "retro", ("products", "reactants")),
        ("REACTANT REAGENT PRODUCT YIELD", "product", ("REACTANT", "PRODUCT")),
    ],
)
def test_default_columns_follow_header_and_task(
    tmp_path: Path, header: str, task: Task | None, chosen: tuple[str, str]
) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("\t".join(header.split()) + "\n")
    table = PairTable(path, task=task)
    assert (table.query_column, table.target_column) == chosen
    path.write_text("product\treactants\nCCO\tCO\n")
    assert list(PairTable(path, "reactants", "product", task)) == [Pair("CO", "CCO")]


def test_table_with_commas_is_read_with_its_groups(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('src,"class",tgt\nCCO,"a, b",CO\n\nC,,N\n')
    pairs = [Pair("CCO", "CO", "a, b"), Pair("C", "N", "")]
    assert list(PairTable(path, group_column="class")) == pairs
    refused("group_column is 'x': expected a column of", PairTable, path, group_column="x")
    path.write_text('src,tgt\nC,"C\n')
    refused(r"a\.csv, line 2: unexpected end of data", PairTable, path)


def test_two_files_of_lines_are_pairs(tmp_path: Path) -> None:
    """Files of OpenNMT: a query a line, with blanks between tokens, and the targets beside it."""
    src, tgt = tmp_path / "src-test.txt", tmp_path / "tgt-test.txt"
    src.write_text("\ufeffC C ( = O ) O . C O\r\n\nC\nC C\n\n")
    tgt.write_text("C O C ( C ) = O\n\nC\n\n")
    table = PairTable([src, tgt])
    expected = [Pair("CC(=O)O.CO", "COC(C)=O"), Pair("C", "C"), Pair("CC", "")]
    assert list(table) == list(table) == expected
    assert (table.query_column, table.target_column) == ("src", "tgt")
    tgt.write_text("C O C ( C ) = O\n\nC\n")
    refused("src-test.txt has a line 4, .*tgt-test.txt has none", PairTable, [src, tgt])
    refused("src-test.txt has a line 4, .*tgt-test.txt has none", PairTable, [tgt, src])
    refused("3 files", PairTable, [src, src, tgt])


def test_a_pipe_is_refused_before_a_row_is_lost() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"src\ttgt\nC\tN\n")
    os.close(writing)
    with pytest.raises(ValueError, match=f"/dev/fd/{reading} is a pipe or a device: expected a f"):
        PairTable(Path(f"/dev/fd/{reading}"))
    assert os.read(reading, 100) == b"src\ttgt\nC\tN\n"
    os.close(reading)


@pytest.mark.parametrize(
    ("header", "named", "message"),
    [
        ("query\ttarget", {"query_column": "x"}, r"query_column is 'x': expected .* query, target"),
        ("CCO\tCC", {}, "none of the columns src, .* CCO, CC: name another by --query-column"),
        ("src", {}, "none of the columns tgt, target"),
        ("product\treactants", {}, "none of the columns src, query, source .* product, reactants"),
        ("\t".join(f"column {i}" for i in range(1000)), {}, r"column 1, .*\.\.\.: name another"),
    ],
)
def test_missing_columns_are_reported(
    tmp_path: Path, header: str, named: dict[str, str], message: str
) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(header)
    with pytest.raises(ValueError, match=message) as caught:
        PairTable(path, **named)
    assert len(str(caught.value)) < 500


def test_table_is_read_no_further_than_needed(tmp_path: Path) -> None:
    """The first half of a compressed file yields its first rows; reading further fails."""
    rows = "".join(f"query {i * i}\ttarget {i * 7}\n" for i in range(40_000))
    compressed = gzip.compress(f"src\ttgt\n{rows}".encode())
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(compressed[: len(compressed) // 2])
    assert list(islice(PairTable(path), 2, 3)) == [Pair("query 4", "target 14")]
    with pytest.raises(OSError, match="damaged") as caught:
        list(PairTable(path))
    assert caught.value.filename == str(path)


def test_sides_of_reactions_are_queries_and_targets(tmp_path: Path) -> None:
    path = tmp_path / "lowe.tsv"
    path.write_text("ReactionSmiles\tYear\n[CH3:1][OH:2].ClCl>O>[CH2:1]=[O:2]\n")
    assert list(PairTable(path, task="retro")) == [Pair("C=O", "CO")]
    assert list(PairTable(path, task="product")) == [Pair("CO.ClCl.O", "C=O")]
    refused("none of the columns", PairTable, path)
