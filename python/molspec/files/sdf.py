"""SDF: its records as queries, answers as its records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import StringIO
from itertools import chain, islice
from typing import TYPE_CHECKING

from molspec.common.console import print_err, quoted
from molspec.common.tables import choose_column, find_column
from molspec.files.answer import Answer, OutputContext, Query
from molspec.files.lines import COLUMNS, cell, copied, fault, probability
from molspec.files.racemates import read_racemate

if TYPE_CHECKING:
    from rdkit import Chem

_END = "$$$$"
#: Bytes of a record in memory, and of a line beside its characters. Those of a longer record are
#: not stored: a small compressed file can contain an endless one.
LONGEST_RECORD, _LINE = 1 << 24, 64
#: Records that are read ahead to find one with the field of identifiers.
_PEEKED = 1000
#: The line before a data field's value, as `>  <NAME>  (1)`.
_HEADER = re.compile(r">[^<]*<(.*)>")


def is_end(line: str) -> bool:
    """Whether a line ends a record."""
    return line.startswith(_END)


def read_records(
    lines: Iterator[str], where: str = "the file", name_field: str | None = None
) -> Iterator[Query]:
    """Yield a query for each record; a damaged record does not affect others.

    Identifiers are in the data field `name_field`, or the record's title, also of a record without
    that field; `where` is the name of the file.

    Raises ValueError if no record has the field, if possible before the first query.
    """
    records = _records(lines)
    if name_field is None:
        return map(_query, records)
    ahead = list[_Record]()
    for record in islice(records, _PEEKED):
        ahead.append(record)
        if record.has(name_field):
            break
    else:
        if 0 < len(ahead) < _PEEKED:
            names = dict.fromkeys(name for record in ahead for name, _ in record.fields())
            choose_column(where, [*names], "id_column", name_field, ())
    return _named(chain(ahead, records), where, name_field)


def _named(records: Iterator[_Record], where: str, name_field: str) -> Iterator[Query]:
    """The queries of the records, with the field as their identifier."""
    count = missing = 0
    for record in records:
        query, count = _query(record), count + 1
        try:
            name = record.value(name_field)
        except ValueError as error:
            yield replace(query, error=query.error or str(error))
            continue
        missing += name is None
        yield query if name is None else replace(query, name=name)
    if 0 < count == missing:
        raise ValueError(f"id_column is {name_field!r}: expected a data field of {where}")
    if missing:
        told = f"{missing} of {count} records of {where} have no data field {name_field!r}"
        print_err(f"{told}: their titles are their identifiers")


@dataclass(frozen=True)
class _Record:
    """The lines of a record, and its size; those of a longer one than is stored are missing."""

    lines: list[str]
    size: int

    @property
    def title(self) -> str:
        return self.lines[0].strip() if self.lines else ""

    @property
    def _end(self) -> int:
        """The number of lines of its structure."""
        ends = (n for n, line in enumerate(self.lines, start=1) if line.startswith("M  END"))
        return next(ends, len(self.lines))

    @property
    def structure(self) -> str:
        """Its atoms and bonds."""
        return "".join(self.lines[: self._end])

    def fields(self) -> Iterator[tuple[str, str]]:
        """The names of its data fields, and their values.

        A header line begins a field, and a blank line, also one with blanks, ends it: RDKit takes
        what follows a line with blanks for more of the same field.
        """
        name, value = None, list[str]()
        for line in chain(self.lines[self._end :], [""]):
            header = _HEADER.match(line)
            if name is not None and (header or not line.strip()):
                yield name, "".join(value).strip()
                name = None
            if header:
                name, value = header[1].strip(), []
            elif name is not None:
                value.append(line)

    def value(self, field: str) -> str | None:
        """The value of a data field; None if it has none. Raises ValueError if it has several."""
        fields = [*self.fields()]
        index = find_column([name for name, _ in fields], field)
        return None if index is None else fields[index][1]

    def has(self, field: str) -> bool:
        """Whether it has a data field of this name, or several."""
        try:
            return self.value(field) is not None
        except ValueError:
            return True


def _records(lines: Iterator[str]) -> Iterator[_Record]:
    record, size = list[str](), 0
    for line in lines:
        if is_end(line):
            yield _Record(record, size)
            record, size = [], 0
        elif (size := size + len(line) + _LINE) <= LONGEST_RECORD:
            record.append(line)
    if any(line.strip() for line in record):
        yield _Record(record, size)


def _query(record: _Record) -> Query:
    if record.size > LONGEST_RECORD:
        fault = f"a record of more than {LONGEST_RECORD:,} bytes: expected {_END} after each"
        return Query("", record.title, error=fault)
    from rdkit import Chem

    from molspec.text import quiet, write_smiles
    from molspec.text.bounds import block_too_large, molecule_too_large

    def read(sanitize: bool) -> Chem.Mol | None:
        supplier.SetData(structure, sanitize=sanitize)
        return next(iter(supplier), None)

    structure, supplier = record.structure, Chem.SDMolSupplier()
    with quiet():
        try:
            reason = block_too_large(structure)
            plain = None if reason else read(sanitize=False)
            if plain is None:
                reason = reason or "its atoms and bonds cannot be read"
            elif not (reason := molecule_too_large(plain)):
                if (molecule := read(sanitize=True)) is not None:
                    groups = Chem.CXSmilesFields.CX_ENHANCEDSTEREO
                    whole = Chem.MolToCXSmiles(molecule, Chem.SmilesWriteParams(), groups)
                    smiles = whole if read_racemate(whole) else write_smiles(molecule)
                    return Query(smiles, record.title)
                Chem.SanitizeMol(plain)  # step by step, with its reason
        except (ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
    reason = reason or "it gives no reason"
    return Query("", record.title, error=f"not a molecule to RDKit: {reason}")


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
    shared = {"query": answer.query.smiles, "note": answer.query.note, "error": answer.error or ""}
    shared = {**copied(answer.query, context), **shared}
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
        fields = {**fields, "error": f"RDKit cannot read its own SMILES again: {quoted(smiles)}"}
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
