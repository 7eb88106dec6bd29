"""SDF: its records as queries, answers as its records."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING

from molspec.common.tables import find_column
from molspec.files.answer import Answer, OutputContext, Query
from molspec.files.lines import COLUMNS, cell, copied, fault, probability

if TYPE_CHECKING:
    from rdkit import Chem

_END = "$$$$"
#: Bytes of a record in memory, and of a line beside its characters. Those of a longer record are
#: not stored: a small compressed file can contain an endless one.
LONGEST_RECORD, _LINE = 1 << 24, 64


def is_end(line: str) -> bool:
    """Whether a line ends a record."""
    return line.startswith(_END)


def read_records(lines: Iterator[str], name_field: str | None = None) -> Iterator[Query]:
    """Yield a query for each record; a damaged record does not affect others.

    Identifiers are in the data field `name_field`, or the record's title.
    """
    record, size = list[str](), 0
    for line in lines:
        if is_end(line):
            yield _query(record, size, name_field)
            record, size = [], 0
        elif (size := size + len(line) + _LINE) <= LONGEST_RECORD:
            record.append(line)
    if any(line.strip() for line in record):
        yield _query(record, size, name_field)


def _query(record: list[str], size: int, name_field: str | None) -> Query:
    if size > LONGEST_RECORD:
        fault = f"a record of more than {LONGEST_RECORD:,} bytes: expected {_END} after each"
        return Query("", record[0].strip(), error=fault)
    from rdkit import Chem

    from molspec.text import quiet, write_smiles

    title, text = record[0].strip() if record else "", "".join(record)
    supplier = Chem.SDMolSupplier()
    with quiet():
        supplier.SetData(text)
        molecule = next(iter(supplier), None)
        if molecule is None:
            return Query("", title, error=_reason(supplier, text))
        if name_field is not None:
            names = list(molecule.GetPropNames())
            index = find_column(names, name_field)
            title = title if index is None else molecule.GetProp(names[index]).strip()
        return Query(write_smiles(molecule), title)


def _reason(supplier: Chem.SDMolSupplier, record: str) -> str:
    """Why a record is not a molecule to RDKit: its message when it reads step by step."""
    from rdkit import Chem

    supplier.SetData(record, sanitize=False)
    molecule = next(iter(supplier), None)
    if molecule is None:
        return "not a molecule to RDKit: its atoms and bonds cannot be read"
    try:
        Chem.SanitizeMol(molecule)
    except ValueError as error:
        return f"not a molecule to RDKit: {' '.join(str(error).split())}"
    return "not a molecule to RDKit: it gives no reason"


def write_records(answer: Answer, context: OutputContext) -> str:
    """A record for each prediction, best first, drawn flat; one without atoms if there is none."""
    from rdkit import Chem

    stream = StringIO()
    with Chem.SDWriter(stream) as writer:
        for record in _molecules(answer, context):
            writer.write(record)
    return stream.getvalue()


def _molecules(answer: Answer, context: OutputContext) -> Iterator[Chem.Mol]:
    predictions = answer.result.predictions
    shared = {"query": answer.query.smiles, "note": answer.note, "error": answer.error or ""}
    shared = {**copied(answer, context), **shared}
    if not predictions:
        yield _with_fields(None, answer.identifier, shared)
    for rank, prediction in enumerate(predictions, start=1):
        fields = {
            **shared,
            "note": answer.note_on(prediction),
            "rank": str(rank),
            "smiles": prediction.canonical or prediction.smiles,
            "probability": probability(prediction),
            "log_prob": cell(prediction.log_prob),
            **{name: cell(v) for name, v in prediction.told().items() if name not in COLUMNS},
        }
        if prediction.canonical is None:
            fields["error"] = fault(prediction)
        yield _with_fields(prediction.canonical, answer.identifier, fields)


def _with_fields(smiles: str | None, title: str, fields: dict[str, str]) -> Chem.Mol:
    """A record of a molecule in the plane, with a title and data; empty values are left out.

    Some molecules RDKit writes, but cannot read again: then it has no atoms, but an error.
    """
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    from molspec.text import quiet, read_smiles

    with quiet():
        molecule = read_smiles(smiles or "")
    if molecule is None:
        molecule = Chem.Mol()
        fields = {**fields, "error": f"RDKit cannot read its own SMILES again: {smiles}"}
    rdDepictor.Compute2DCoords(molecule)
    molecule.SetProp("_Name", _one_line(title))
    for name, value in fields.items():
        if value:
            molecule.SetProp(_one_line(name), _one_line(value))
    return molecule


def _one_line(text: str) -> str:
    """Remove line breaks, which would end the title or field, and marks of a record's end."""
    line = " ".join(text.split())
    return f" {line}" if line.startswith(_END) else line
