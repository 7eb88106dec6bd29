"""Reads what chemists paste as the SMILES of a query."""

import re

from molspec.common.task import Task
from molspec.files.answer import Query
from molspec.files.sources import QueryFile
from molspec.text import molecules, quiet, reactions
from molspec.text.bounds import inchi_too_large

#: What ends the line of counts, the fourth one of a molfile.
_COUNTS = re.compile(r"V[23]000\s*$")


def read_pasted(text: str, task: Task | None = None) -> str:
    """The SMILES of standard InChI, a molfile, RXN or a reaction; other text as it is.

    task: decides the side of a reaction.

    Raises ValueError for InChI or a structure that is not a molecule to RDKit.
    """
    lines = text.splitlines(keepends=True)
    if len(lines) > 1 and re.search(r"\$(RXN|RDFILE)|V[23]000", text):
        return _of_structure(lines, task)
    if not text.strip().startswith("InChI="):
        return reactions.reaction_part(text.strip(), task)
    first = text.split()[0]  # AuxInfo may follow
    with quiet():
        if (molecule := molecules.read_inchi(first)) is None:
            raise ValueError(f"text is {inchi_too_large(first) or 'not a molecule to RDKit'}")
        return molecules.write_smiles(molecule)


def _of_structure(lines: list[str], task: Task | None) -> str:
    form = "rxn" if any(line.startswith(("$RXN", "$RDFILE")) for line in lines) else "sdf"
    counts = next((at for at, line in enumerate(lines) if _COUNTS.search(line)), 3)
    if form == "sdf":  # a paste may lack empty lines of the header
        lines = [*["\n"] * (3 - counts), *lines[max(0, counts - 3) :]]
    query = next(QueryFile("text", form, iter(lines)).queries(task=task), Query("", error="none"))
    if query.error is not None or not query.smiles:
        raise ValueError(f"text holds no molecule: {query.error}")
    return query.smiles
