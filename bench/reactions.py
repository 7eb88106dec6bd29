"""Reading reactions to measure with: TSV, compressed or not, one a line behind a header."""

from __future__ import annotations

import csv
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

#: Names of the columns that hold queries and targets.
_COLUMNS = (("src", "tgt"), ("product", "reactants"))


@dataclass(frozen=True)
class Reaction:
    """A query, as the model reads it, and what is recorded as its answer."""

    query: str
    target: str


def read(path: Path, limit: int | None = None, offset: int = 0) -> list[Reaction]:
    """`limit` reactions of a TSV[.xz] with columns src and tgt, or product and reactants.

    Raises ValueError where the header has neither.
    """
    opened = lzma.open if path.suffix == ".xz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as lines:
        stop = None if limit is None else offset + limit
        return list(islice(_reactions(path, lines), offset, stop))


def _reactions(path: Path, lines: Iterator[str]) -> Iterator[Reaction]:
    rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    for source, target in _COLUMNS:
        if {source, target} <= set(rows.fieldnames or ()):
            return (Reaction(row[source], row[target]) for row in rows)
    raise ValueError(f"{path}: columns {rows.fieldnames}: expected src, tgt or product, reactants")
