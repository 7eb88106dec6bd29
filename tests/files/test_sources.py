from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from molspec.files import Query, open_source


def read(path: Path | None, form: str | None = None, *columns: str | None) -> list[Query]:
    with open_source(None if path is None else str(path), form, ("C", "N m")) as source:
        return list(source.queries(*columns, task="retro"))  # type: ignore[misc]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_smiles_with_names(tmp_path: Path) -> None:
    text = "\ufeffSMILES Name\r\nCO methanol, 99 %\r\n  CN\tmethylamine\n\nCC\nX"
    assert read(write(tmp_path / "a.smi", text)) == [
        Query("CO", "methanol, 99 %"),
        Query("CN", "methylamine"),
        Query(""),
        Query("CC"),
        Query("X"),
    ]


def test_what_is_no_utf_8_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_bytes(b"X\xff caf\xe9\n")
    assert read(tmp_path / "a.smi") == [Query("X\ufffd", "caf\ufffd")]


def test_tables_with_their_columns(tmp_path: Path) -> None:
    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        rows = (("Name", "smiles", "note"), ("m 1", "CO", "x"), ("m2", "", "y"), ("", "CN"))
        path = write(tmp_path / name, "\n".join(map(separator.join, rows)))
        assert read(path) == [Query("CO", "m 1"), Query("", "m2"), Query("CN")]
        assert read(path, None, "Smiles", "NOTE") == [
            *(Query("CO", "x"), Query("", "y"), Query("CN"))
        ]
    path = write(tmp_path / "quoted.csv", 'product,id\n"CO","1,2-diol ""x"""\n')
    assert read(path) == [Query("CO", '1,2-diol "x"')]


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "structure,code\nC,1\n")
    with pytest.raises(ValueError, match=r"none of the columns smiles, .*, product is in its hea"):
        read(path)
    with pytest.raises(
        ValueError, match=r"column is 'x': expected a column of .*, structure, code"
    ):
        read(path, None, "x")
    with pytest.raises(ValueError, match="id_column is 'x': expected a column of"):
        read(path, None, "structure", "x")


def test_the_form_is_what_the_name_says_or_what_is_asked_for(tmp_path: Path) -> None:
    table = "smiles,id\nCO,1\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(table.encode()))
    (tmp_path / "a.CSV.xz").write_bytes(lzma.compress(table.encode()))
    for name in ("a.csv.gz", "a.CSV.xz"):
        assert read(tmp_path / name) == [Query("CO", "1")]
    assert read(write(tmp_path / "b.dat", table), "csv") == [Query("CO", "1")]
    assert read(write(tmp_path / "b.dat", "CO x"))[0] == Query("CO", "x")


def test_arguments_are_taken_as_they_are() -> None:
    assert read(None) == [Query("C"), Query("N m")]


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.smi", "CO\nCN\nCC", 3),
        ("a.csv", 'smiles,note\nCO,"two\nlines"\n\nCN,\n', 2),
        ("a.sdf", "x\n$$$$\ny\n$$$$\n", 2),
        ("a.csv", "", 0),
    ],
)
def test_queries_are_counted(tmp_path: Path, name: str, text: str, count: int) -> None:
    with open_source(str(write(tmp_path / name, text))) as source:
        assert source.count() == count


def test_what_cannot_be_read_twice_is_not_counted() -> None:
    for name in ("/dev/null", None):
        with open_source(name) as source:
            assert source.count() is None
