import bz2
import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from molspec.common import tables
from molspec.common.tables import LONGEST_LINE, read_cells
from molspec.files import Query, open_source
from molspec.files.sources import QueryFile
from tests import refused


def read(path: Path | None, form: str | None = None, *columns: str | None) -> list[Query]:
    with open_source(None if path is None else str(path), form, ("C", "N m")) as source:
        return list(source.queries(*columns, task="retro"))  # type: ignore[misc]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


#: Files by name and text, and the queries that are read: SMILES, or SMILES and a name.
READ = [
    (
        "a.smi",
        "\ufeffSMILES Name\r\nCO methanol, 99 %\r\n  CN\tmethylamine\n\nCC\nX",
        [("CO", "methanol, 99 %"), ("CN", "methylamine"), "", "CC", "X"],
    ),
    # Identifiers may come first.
    ("a.txt", "1\tCCO\n2\tCN\n", [("CCO", "1"), ("CN", "2")]),
    ("a.txt", "1 CCO\n2 CN\n", [("CCO", "1"), ("CN", "2")]),
    ("a.txt", "CID\tSMILES\n1\tCCO\n2\tCN\n", [("CCO", "1"), ("CN", "2")]),
    ("a.txt", "chembl_id\tcanonical_smiles\tinchi\n1\tCCO\tx\n", [("CCO", "1")]),
    # Of several columns of SMILES the one with stereo is read. R's row names have no header.
    ("a.csv", "cid,canonical_smiles,isomeric_smiles\nx,CC=CC,C/C=C/C\n", [("C/C=C/C", "x")]),
    ("a.csv", "ConnectivitySMILES,SMILES\nCC=CC,C/C=C/C\n", ["C/C=C/C"]),
    ("r.tsv", "smiles\tid\n1\tCCO\tx\n2\tCN\ty\n", [("CCO", "x"), ("CN", "y")]),
    ("a.smi", "SMILES C\nC x\n", [("C", "x")]),
    ("a.smi", "x y CO\nC x\n", [("x", "y CO"), ("C", "x")]),
    ("a.smi", "CC CO\nC x\n", [("CC", "CO"), ("C", "x")]),
    ("a.smi", "x query\nC x\n", [("x", "query"), ("C", "x")]),
    # A name is not joined with its molecule.
    *(
        ("a.smi", line, [tuple(line.split(maxsplit=1))])
        for line in ("C 1", "CC C", "N ammonia", "O water 1", "CCO A", "C C a", "CO lot # 3")
    ),
    ("a.smi", "C\t1\t2", [("C", "1\t2")]),
    ("a.smi", "C 1 2 3\n", [("C", "1 2 3")]),
    ("a.smi", "C C O\ta b\nCCO\t( a name )\n", [("CCO", "a b"), ("CCO", "( a name )")]),
    # "C N" is methylamine, or methane that is called N: lines before tell.
    ("a.smi", "C O C\nC N\nC\tO\n", ["COC", "CN", ("C", "O")]),
    ("a.smi", "CCO ethanol\nC N\n", [("CCO", "ethanol"), ("C", "N")]),
    # Extensions of ChemAxon are left out, and tokens of models are no tags.
    ("a.smi", "C[C@@H](N)O |a:1| alanine\nCCO |r|\n", [("C[C@@H](N)O", "alanine"), "CCO"]),
    ("a.smi", "CC.O |f:0.1|\n", ["CC.O"]),
    ("a.smi", "C C O |r|\n", ["CCO"]),
    ("a.csv", 'id,smiles\nF,"C[C@@H](N)O |a:1,f:0|"\n', [("C[C@@H](N)O", "F")]),
    # Those of racemates are kept.
    *(
        (name, text, [(f"C[C@@H](F)O |{group}|", "m x")])
        for group in ("&1:1", "o1:1", "r", "&2:1,r", "a:4,&1:1")
        for name, text in (
            ("a.smi", f"C[C@@H](F)O  |{group}| m x"),
            ("a.smi", f"C [C@@H] ( F ) O\t\t| {group.replace(',', ', ')} |\tm x"),
            ("a.csv", f'id,smiles\nm x,"C[C@@H](F)O |{group}|"\n'),
            ("a.tsv", f"id\tsmiles\nm x\tC[C@@H](F)O |{group}|\n"),
        )
    ),
    (
        "a.smi",
        "C[C@@H](F)O |$_R1;&1:1,r;;$| x\nC[C@@H](F)O |a:1|\n",
        [("C[C@@H](F)O", "x"), "C[C@@H](F)O"],
    ),
    ("a.csv", "smiles\nC[C@@H](F)O |&1:1,3\n", ["C[C@@H](F)O |&1:1"]),  # is refused
    ("a.txt", "C C ( = O ) Cl . N c 1 c\n[Na+] . [OH-]\n", ["CC(=O)Cl.Nc1c", "[Na+].[OH-]"]),
    ("a.csv", "smiles\nC l c 1 c c c\nC C % 1 0\n", ["Clc1ccc", "CC%10"]),
    ("a.txt", "<RX_1> C C O\n<RX_1> CCO ethanol\n", ["<RX_1>CCO", ("<RX_1>CCO", "ethanol")]),
    ("a.smi", "[13C]\n[ Na+] x\n", ["[13C]", ("[", "Na+] x")]),
    ("a.smi", "smiles\tEnamine_ID\tMW\nCO\tEN-1\t32\nCN\t\t31\n", [("CO", "EN-1"), "CN"]),
    ("a.smi", "SMILES MW  name\nCO |r| 32 a b\nCN\n", [("CO", "a"), "CN"]),
    # Tables.
    ("a.csv", "Name,smiles,note\nm 1,CO,x\nm2,,y\n,CN", [("CO", "m 1"), ("", "m2"), "CN"]),
    ("a.tsv", "Name\tsmiles\nm 1\tCO\n\tCN", [("CO", "m 1"), "CN"]),
    ("a.csv", 'product,id\n"CO","1,2-diol ""x"""\n', [("CO", '1,2-diol "x"')]),
    ("A.CSV", "sep=\t\r\nsmiles\tname, full\r\nCO\tx\r\n", ["CO"]),
    # Rows without a text are queries too, but those behind the last; a first row may be ragged.
    ("a.csv", 'smiles\nCCO\n\n""\n \nCN\n', ["CCO", "", " ", "CN"]),
    ("a.csv", "id,smiles\n1,C,x\n2\n,\n,\n3,N\n,\n", [("C", "1"), ("", "2"), "", "", ("N", "3")]),
    ("a.csv", f"smiles,id,note\nCO,a,{'n' * 500_000}\nCN,b,\n", [("CO", "a"), ("CN", "b")]),
    ("a.csv", "id,source,product\n1,Sigma,CCO\n", [("CCO", "1")]),
    ("a.csv", "source,target\nCCO,C\n", ["CCO"]),
    *(
        ("a.csv", f"Canonical SMILES,{name}\nCO,methanol\n", [("CO", "methanol")])
        for name in (
            *("Compound Name", "compound_name", "Molecule-Name", "ChEMBL ID", "CAS", "Compound"),
        )
    ),
    ("b.dat", "CO x", [("CO", "x")]),
    ("a.smi", "CO a\nC\0O b\nCN\n\0\0\0", [("CO", "a"), ("C\0O", "b"), "CN", "\0\0\0"]),
]


@pytest.mark.parametrize(("name", "text", "expected"), READ)
def test_files_are_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, text: str, expected: list[Any]
) -> None:
    found = read(write(tmp_path / name, text))
    assert found == [Query(*([each] if isinstance(each, str) else each)) for each in expected]
    told = capfd.readouterr().err
    assert ("'1' is read as an identifier" in told) == text.startswith("1")
    assert ("smiles' is read; or by --column" in told.casefold()) == (",C/C=C/C" in text)
    assert ("row names, as R's" in told) == (name == "r.tsv")


#: Lines that are no query, and a part of the error.
NO_QUERY = {
    "C 0.896 -0.07 -0.01": "has coordinates",
    "C N": "may be 'CN', or 'C' and a name",
    "CC(=O) Cl . CCO": "has tokens behind a blank",
    "C [C@H] ( N ) C ( = O ) O ala": "has tokens behind a blank",
    "CCO [v4][u2]": "CCO [v4][u2]",
    "CCO | [v4] [u2]": "CCO | [v4] [u2]",
    "C C O | [v4] [u2]": "C C O | [v4] [u2]",
}


@pytest.mark.parametrize("line", NO_QUERY)
def test_a_line_that_is_no_query_is_an_error_of_its_own(line: str, tmp_path: Path) -> None:
    _, refused, after = read(write(tmp_path / "a.smi", f"CCO |r|\n{line}\nCCO\tx\n"))
    assert (refused.smiles, after) == ("", Query("CCO", "x"))
    assert line in str(refused.error)
    assert NO_QUERY[line] in str(refused.error)


def test_format_and_columns_follow_the_arguments(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "Name,smiles,note\nm 1,CO,x\n,CN\n")
    assert read(path, None, "Smiles", "NOTE") == [Query("CO", "x"), Query("CN")]
    assert read(write(tmp_path / "b.dat", "smiles,id\nCO,1\n"), "csv") == [Query("CO", "1")]
    path = write(tmp_path / "A.CSV", "sep=\t\r\nsmiles\tname, full\r\nCO\tx\r\n")
    assert read(path, None, None, "name, full") == [Query("CO", "x")]
    assert [*read_cells(path)] == [(2, ["smiles", "name, full"]), (3, ["CO", "x"])]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_compressed_text_of_any_system_is_read(tmp_path: Path, encoding: str) -> None:
    table = "smiles,id\nCO,\u00e9\n".encode(encoding)
    for name, compress in (("a.csv.gz", gzip), ("a.CSV.xz", lzma), ("a.csv.GZ", gzip)):
        (tmp_path / name).write_bytes(compress.compress(table))  # type: ignore[attr-defined]
        assert read(tmp_path / name) == [Query("CO", "\u00e9")]
    (tmp_path / "a.csv").write_bytes(table)
    assert read(tmp_path / "a.csv") == [Query("CO", "\u00e9")]


@pytest.mark.parametrize("ending", ["smi", "tsv", "csv", "csv.gz"])
def test_lines_that_are_not_utf_8_are_read_as_windows_1252_and_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], ending: str
) -> None:
    separator = "," if "csv" in ending else "\t"
    rows = ["smiles|name", "CO|caf\u00e9 \u20ac", "CN|\u00abCAF\u00c9\u00bb", "CC|x"]
    data = "\r\n".join(rows).replace("|", separator).encode("cp1252")
    data += f"\nCS{separator}\u00fcber\nCP{separator}".encode() + b"\x81\n"  # lines of their own
    path = tmp_path / f"a.{ending}"
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    names = ["caf\u00e9 \u20ac", "\u00abCAF\u00c9\u00bb", "x", "\u00fcber", "\ufffd"]
    for _ in range(2):
        assert [query.name for query in read(path)] == names
        assert [query.error for query in read(path)] == [None] * 5
    (told,) = capfd.readouterr().err.splitlines()
    assert f"{path}, line 2" in told
    assert "caf\u00e9" in told


def test_half_a_character_of_utf_16_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_bytes("CO ab".encode("utf-16")[:-1])
    refused(OSError, r"a\.smi", read, tmp_path / "a.smi")


def _smiles(table: Path, column: str | None, task: Any) -> list[str]:
    with open_source(str(table)) as source:
        return [query.smiles for query in source.queries(column, task=task)]


def test_reagents_beside_reactants_belong_to_the_query_for_a_product(tmp_path: Path) -> None:
    table = write(tmp_path / "a.csv", "REACTANT,REAGENT,PRODUCT\nCC=O,[Na+],CCO\nCC=O,,CCO\n")
    found = {
        (column, task): _smiles(table, column, task)
        for column, task in ((None, "product"), ("REACTANT", "product"), (None, "retro"))
    }
    assert found == {
        (None, "product"): ["CC=O.[Na+]", "CC=O"],
        ("REACTANT", "product"): ["CC=O", "CC=O"],
        (None, "retro"): ["CCO", "CCO"],
    }


@pytest.mark.parametrize("name", ["a.sma", "a.smarts.gz"])
def test_smarts_are_refused_by_their_kind(tmp_path: Path, name: str) -> None:
    data = b"[C:1](=[O:2])[OH].[N:3]>>[C:1](=[O:2])[N:3] amide\n"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    refused(OSError, "SMARTS", read, tmp_path / name)


def test_only_a_tab_ends_a_query_of_learned_pieces(tmp_path: Path) -> None:
    lines = write(tmp_path / "a.txt", "A:C B: \n A:C B: \t\nA:C B:\tmine\n A:CB:\n")
    with open_source(str(lines)) as source:
        refused, *found = source.queries(atomwise=False)
    assert refused.error is not None
    assert "expected a tab behind the query" in refused.error
    assert found == [Query(" A:C B: "), Query("A:C B:", "mine"), Query(" A:CB:")]


def test_missing_columns_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", f"structure,code,rxn\nC,1,{R}\n")
    refused(
        "none of the columns isomeric_smiles, .*, source is in its hea", _smiles, path, None, None
    )
    refused("column is 'x': expected a column of .*, structure, code", read, path, None, "x")
    refused("id_column is 'x': expected a column of", read, path, None, "structure", "x")
    named = write(tmp_path / "a.tsv", "smiles\tid\na\tCO\tx\n")  # by R, or a cell without a name
    refused("a.tsv, line 2 has 3 cells, the header 2: expected a name for each", read, named)
    lines = write(tmp_path / "a.smi", "CO")
    assert read(None) == [Query("C"), Query("N m")]  # arguments are read as they are
    for name in (None, lines):
        for columns, message in ((("x",), "column is 'x'"), ((None, "x"), "id_column is 'x'")):
            refused(f"^{message}: expected none", read, name, None, *columns)
    for name in (str(path), str(lines), None):
        with open_source(name, given=["CO"]) as source:
            refused("copy_column is 'cost': expected", source.queries, "rxn", copied=("cost",))


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


def test_sources_that_can_be_read_only_once_are_not_counted() -> None:
    for name in ("/dev/null", None):
        with open_source(name) as source:
            assert source.count() is None


@pytest.mark.parametrize("begin", ["", "sep=;\r\n", "\ufeff"])
def test_tables_of_excel_with_semicolons_are_read(tmp_path: Path, begin: str) -> None:
    text = f'{begin}Compound Name;SMILES;Price, EUR\r\n"a; b";CO;1,5\r\nc;CN;2\r\n'
    path = write(tmp_path / "a.csv", text)
    assert read(path) == [Query("CO", "a; b"), Query("CN", "c")]
    with open_source(str(path)) as source:
        assert source.count() == 2
    with open_source(str(path)) as source:
        copied = [query.columns for query in source.queries(copied=("price, eur",))]
    assert copied == [("1,5",), ("2",)]
    path = write(tmp_path / "bad.csv", f'{begin}smiles;id\nCO;1\nCN;"2\nCC;3\n')
    line = 3 + begin.startswith("sep")
    refused(rf"bad.csv, line {line}: unexpected end of data", read, path)


def test_overlong_line_is_refused_by_its_number(tmp_path: Path) -> None:
    longest = "C" * (LONGEST_LINE - 1)
    for name, compress in (("a.smi.gz", gzip.compress), ("a.smi.xz", lzma.compress)):
        (tmp_path / name).write_bytes(compress(f"CO\n{longest}\n".encode()))
        assert len(read(tmp_path / name)[1].smiles) == LONGEST_LINE - 1
        (tmp_path / name).write_bytes(compress(f"CO\n{longest}CC\n".encode()))
        refused(OSError, r"line 2 is too long", read, tmp_path / name)


def test_an_unclosed_quote_takes_no_rows_silently(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'smiles,id\nCO,a\nCN,"b\nCC,c\nCCO,"d"\nCCC,e\n')
    refused(r"a\.csv, line 3: ',' expected after '\"'", read, path)


def test_a_row_without_end_is_refused_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "LONGEST_ROW", 1_000)
    row = 'CO,"a\nb"\n'
    path = write(tmp_path / "a.csv", "smiles,id\n" + row * 200)
    assert len(read(path)) == 200
    path = write(tmp_path / "a.csv", "smiles,id\n" + row + 'CO,"a\nb",' * 200)
    refused(r"a\.csv, line 4: a row of more than 1,000 characters", read, path)


@pytest.mark.parametrize("header", ["smiles,smiles", "SMILES,Smiles", "smiles,id,id"])
def test_several_columns_of_one_name_are_refused(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "a.csv", f"{header}\nCO,CN\n")
    refused("2 columns are called .*: expected one", read, path)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PK\x03\x04\x14\0\x06\0", "a zip or Excel file"),
        (b"PAR1\x15\x04\x15", "Parquet, which `molspec predict-parquet`"),
        (gzip.compress(b"CCO\n", mtime=0), "compressed by gzip"),
        (bz2.compress(b"CCO\n"), "compressed by bzip2"),
        (b"\x89HDF\r\n\x1a\n\0\0", "not text"),
        (b"a.smi".ljust(257, b"\0") + b"ustar", "a tar archive"),
        ("CCO\n".encode("utf-16-le"), "not text"),
        (b'[\n {"smiles": "CCO"}]', "JSON"),
        (b'{"smiles": "CCO"}\n', "JSON"),
        (b"\xef\xbb\xbf<?xml version='1.0'?>", "XML or HTML"),
        (b"$RXN\n\n  RDKit\n", "a file of reactions"),
        (b"$RDFILE 1\n$DATM\n", "a file of reactions"),
        (b"# by hand\n@<TRIPOS>MOLECULE\n", "a MOL2 file"),
        (b"HETATM    1  C1  UNL     1\n", "a PDB file"),
        (b"3\r\nwater\r\nO  0.0 -0.1 0.2\r\n", "an XYZ file"),
        (b"2\n\nC 0 0 0\nO 1. 0 -1\n", "an XYZ file"),
        (b"a\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n", "a file of structures, without"),
    ],
)
def test_other_kinds_of_files_are_refused(tmp_path: Path, content: bytes, kind: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    expected = f"it is {kind}.*: expected SMILES .*, a table .* or structures"
    with pytest.raises(OSError, match=expected), open_source(str(path)):
        pass
    refused(OSError, expected, next, read_cells(path))


R = "[CH3:1][OH:2]>O>[CH2:1]=[O:2]"


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("lowe.rsmi", f"ReactionSmiles\tPatentNumber\n{R} |f:0.1|\tUS1\n", ["", "US1"]),
        ("coley.txt", f"{R} 1-2-2.0\n", ["1-2-2.0"]),
        ("column.txt", f"US1\t2\t{R}\n", [""]),
        ("local.csv", f"id,class,reactants>reagents>production\n7,2,{R}\n", ["7"]),
        ("bare.csv", f"7,{R}\n", [""]),
        ("smiles.tsv", f"id\tsmiles\n7\t{R} |f:0|\n", ["7"]),
        ("tokens.txt", "C O . O >> C = O\n", [""]),
    ],
)
def test_side_of_reactions_is_the_query(
    tmp_path: Path, name: str, text: str, names: list[str]
) -> None:
    (query,) = read(write(tmp_path / name, text))
    assert query.smiles == "C=O"
    assert query.name in names
    with open_source(str(tmp_path / name)) as source:
        (query,) = source.queries(task="product")
    assert query.smiles == "CO.O"


def test_a_line_is_read_before_the_next_is_there(tmp_path: Path) -> None:
    def lines() -> Iterator[str]:
        yield "CO\tmethanol\n"
        pytest.fail("a program that waits for an answer would wait for ever")

    assert next(QueryFile("-", "smi", lines()).queries(task="retro")) == Query("CO", "methanol")
