from pathlib import Path

import pytest
from rdkit import Chem

from molspec import text
from molspec.files import FORMATS, Answer, OutputContext, Query, open_source, sdf
from molspec.prediction.results import Prediction, Result
from tests import refused


def record(smiles: str, title: str, **fields: str) -> str:
    molecule = Chem.MolFromSmiles(smiles)
    block = Chem.MolToMolBlock(molecule)
    data = "".join(f">  <{name}>\n{value}\n\n" for name, value in fields.items())
    return f"{title}{block}{data}"


FIVE_BONDS = (
    "five bonds\n     x\n\n  6  5  0  0  0  0  0  0  0  0999 V2000\n"
    + "    0.0000    0.0000    0.0000 C   0  0\n" * 6
    + "".join(f"  1  {atom}  1  0\n" for atom in range(2, 7))
    + "M  END\n"
)
DAMAGED = "damaged\n  x\n\n  2  1  0  0  0  0\nnonsense\nM  END\n"


def read(tmp_path: Path, text: str, name_column: str | None = None) -> list[Query]:
    path = tmp_path / "a.sdf"
    path.write_text(text)
    with open_source(str(path)) as source:
        return list(source.queries(None, name_column))


def test_records_become_queries_and_damaged_ones_fail_alone(tmp_path: Path) -> None:
    valid = record("CCO", "ethanol", CAS="64-17-5")
    text = "$$$$\n".join((valid, DAMAGED, FIVE_BONDS, valid, "", record("C[C@H](N)O", "")))
    reason = "Explicit valence for atom # 0 C, 5, is greater than permitted"
    unread = "not a molecule to RDKit: its atoms and bonds cannot be read"
    assert read(tmp_path, text) == [
        Query("CCO", "ethanol"),
        Query("", "damaged", unread),
        Query("", "five bonds", f"not a molecule to RDKit: {reason}"),
        Query("CCO", "ethanol"),
        Query("", "", unread),
        Query("C[C@H](N)O", ""),
    ]
    for name in ("CAS", "cas"):
        names = [query.name for query in read(tmp_path, text, name)]
        assert names == ["64-17-5", "damaged", "five bonds", "64-17-5", "", ""]
    for empty in ("", "\n\n", "\n \n"):
        assert read(tmp_path, empty) == []


#: Data fields of a record; what `--id-column REF` reads of them.
FIELDS = {
    ">  <REF>\nR-1\n \n>  <NOTE>\nn\n\t\n": "R-1",
    ">  <NOTE>\nn\n \n>  <REF>\nR-1\n": "R-1",
    ">  <>\nx\n\n>  <REF>  (1) \nR-1\n\n": "R-1",
    "> 25 <ref> DT12\r\nR-1\r\n\r\n": "R-1",
    ">  <NOTE>\nn\n>  <REF>\nR-1\n": "R-1",
    ">  <REF>\nR-1\nmore\n\nstray\n": "R-1\nmore",
    ">  <REF>\n\n>  <NOTE>\nn\n\n": "",
    "> 25 DT12\nR-2\n\n>  <REF>\n>50\n\n": ">50",
}


@pytest.mark.parametrize("fields", FIELDS)
def test_data_fields_are_read_by_their_headers(tmp_path: Path, fields: str) -> None:
    for structure in (record("CCO", "title"), DAMAGED):
        (query,) = read(tmp_path, structure + fields, "REF")
        assert query.name == FIELDS[fields]
        assert (query.smiles, query.error is None) in (("CCO", True), ("", False))


def test_a_field_that_no_record_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "$$$$\n".join([record("CCO", "a", CAS="1"), record("CO", "b", REF="R")] * 3)
    (tmp_path / "a.sdf").write_text(text)
    expected = r"id_column is 'x': expected a column of .*a\.sdf, CAS, REF"
    with open_source(str(tmp_path / "a.sdf")) as source:
        refused(expected, source.queries, None, "x")  # before the first query
    monkeypatch.setattr(sdf, "_PEEKED", 2)
    refused(r"id_column is 'x': .*a\.sdf", read, tmp_path, text, "x")


def test_records_without_the_field_are_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    twice = record("CN", "c", REF="R-2") + ">  <REF>\nR-3\n"
    text = "$$$$\n".join((record("CCO", "a"), record("CO", "b", REF="R-1"), twice))
    one, two, three = read(tmp_path, text, "REF")
    assert (one, two) == (Query("CCO", "a"), Query("CO", "R-1"))
    assert three.error is not None
    assert "'REF'" in three.error
    assert "1 of 3 records of " in capfd.readouterr().err


def test_a_record_without_end_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdf, "LONGEST_RECORD", 5_000)
    endless = "endless\n" + "a\n" * 1_000
    valid = record("CCO", "ethanol")
    reason = "a record of more than 5,000 bytes: expected $$$$ after each"
    assert read(tmp_path, f"{valid}$$$$\n{endless}$$$$\n{valid}$$$$\n{endless}") == [
        Query("CCO", "ethanol"),
        Query("", "endless", reason),
        Query("CCO", "ethanol"),
        Query("", "endless", reason),
    ]


def test_answers_become_records_that_rdkit_reads(tmp_path: Path) -> None:
    predictions = (
        *(Prediction("OCC", -0.125), Prediction("C(", -1.0, log_prob_after_prefix=-0.25)),
        Prediction("CC", -2.0, finished=False, count=3),
    )
    salt = Query("CN.[Na+]", note="decoded without [Na+]", columns=("7",))
    answers = [
        Answer(1, Query("CO", "m 1", columns=("",)), Result("CO", predictions)),
        Answer(2, Query("X", "$$$$", columns=("",)), Result("X", error="it has an X")),
        Answer(3, salt, Result("CN.[Na+]", predictions[:1])),
    ]
    path = tmp_path / "out.sdf"
    context = OutputContext("retro", copied_columns=("lot\nnumber",))
    path.write_text("".join(FORMATS["sdf"].render(answer, context) for answer in answers))
    molecules = list(Chem.SDMolSupplier(str(path)))
    assert [Chem.MolToSmiles(molecule) for molecule in molecules] == ["CCO", "", "", "", "CCO"]
    titles = [molecule.GetProp("_Name") for molecule in molecules]
    assert titles == ["m 1", "m 1", "m 1", " $$$$", "3"]
    first, second, third, failed, noted = (molecule.GetPropsAsDict() for molecule in molecules)
    assert first == {
        "query": "CO",
        "rank": 1,
        "smiles": "CCO",
        "probability": 0.882497,
        "log_prob": -0.125,
    }
    assert (second["smiles"], second["error"]) == ("C(", "not a molecule to RDKit")
    assert (third["error"], third["count"]) == ("unfinished", 3)
    assert second["log_prob_after_prefix"] == -0.25
    assert (failed["query"], failed["error"]) == ("X", "it has an X")
    assert (noted["note"], noted["lot number"]) == ("decoded without [Na+]", 7)
    assert molecules[0].GetNumConformers() == 1


def test_a_molecule_that_rdkit_cannot_read_again_is_a_record_with_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Prediction.known("Cc1ccccc1", -1.0, True, "Cc1ccccc1")
    answer = Answer(1, Query("CCO", "one"), Result("CCO", (found, found)))
    readable = iter((True, False))
    read = text.read_smiles
    monkeypatch.setattr(text, "read_smiles", lambda each: read(each) if next(readable) else None)
    records = FORMATS["sdf"].render(answer, OutputContext("m"))
    supplier = Chem.SDMolSupplier()
    supplier.SetData(records)
    first, second = supplier
    assert first.GetNumAtoms() == 7
    assert second.GetNumAtoms() == 0
    assert second.GetProp("smiles") == "Cc1ccccc1"
    expected = "RDKit cannot read its own SMILES again: 'Cc1ccccc1'"
    assert second.GetProp("error") == expected
