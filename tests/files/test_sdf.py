from pathlib import Path

import pytest
from rdkit import Chem

from molspec import text
from molspec.files import FORMATS, Answer, OutputContext, Query, open_source, sdf
from molspec.prediction.results import Prediction, Result


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


@pytest.mark.parametrize("text", ["", "\n\n", "\n \n"])
def test_file_without_records_has_no_queries(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == []


def test_answers_become_records_that_rdkit_reads(tmp_path: Path) -> None:
    predictions = (
        *(Prediction("OCC", -0.125), Prediction("C(", -1.0, inclusion=0.25)),
        Prediction("CC", -2.0, finished=False, count=3),
    )
    answers = [
        Answer(1, Query("CO", "m 1"), Result("CO", predictions)),
        Answer(2, Query("X", "$$$$"), Result("X", error="it has an X")),
        Answer(3, Query("CN.[Na+]"), Result("CN.[Na+]", predictions[:1]), "decoded without [Na+]"),
    ]
    path = tmp_path / "out.sdf"
    context = OutputContext("retro")
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
    assert second["inclusion"] == 0.25
    assert (failed["query"], failed["error"]) == ("X", "it has an X")
    assert noted["note"] == "decoded without [Na+]"
    assert molecules[0].GetNumConformers() == 1


def test_a_copied_column_may_have_a_line_break_in_its_name() -> None:
    context = OutputContext("product", copied_columns=("lot\nnumber",))
    answer = Answer(1, Query("C", columns=("7",)), Result("C", (Prediction("C", -0.5),)))
    assert ">  <lot number>  (1) \n7\n" in FORMATS["sdf"].render(answer, context)


def test_a_molecule_that_rdkit_cannot_read_again_is_a_record_with_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Prediction.known("Cc1ccccc1", -1.0, True, "Cc1ccccc1")
    answer = Answer(1, Query("CCO", "one"), Result("CCO", (found, found)))
    readable = iter((True, False))
    read = text.read_smiles
    monkeypatch.setattr(
        text, "read_smiles", lambda smiles: read(smiles) if next(readable) else None
    )
    records = FORMATS["sdf"].render(answer, OutputContext("m"))
    supplier = Chem.SDMolSupplier()
    supplier.SetData(records)
    first, second = supplier
    assert first.GetNumAtoms() == 7
    assert second.GetNumAtoms() == 0
    assert second.GetProp("smiles") == "Cc1ccccc1"
    expected = "RDKit cannot read its own SMILES again: Cc1ccccc1"
    assert second.GetProp("error") == expected


PORPHYRIN = (
    "CC1=C(/C=C2\\C(C)=C3/C(C)=C(/C=C4\\C(C)=C5/C(CCC(=O)O)=C(C(C)=C5N4)C=C6\\C(CCC(=O)O)"
    "=C(C)C(=C6N2)C=C1)N3)C=C(\\C=C)C"
)


def test_spellings_of_such_a_molecule_are_its_own() -> None:
    """Whether RDKit can read it again depends on its version."""
    assert text.aligned_spellings("CCO", PORPHYRIN) in ([], text.aligned_spellings("", PORPHYRIN))
