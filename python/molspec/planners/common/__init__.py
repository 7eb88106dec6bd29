"""The stock `common`, which comes with the package; README.md beside it describes it."""

from collections.abc import Iterator
from pathlib import Path

from molspec.common.tables import read_cells

#: The name of the stock, in place of a file, and what it is.
COMMON, ABOUT = "common", "common in patents, no supplier's catalogue"
_FILE = Path(__file__).parent / "molecules.tsv.xz"


def molecules() -> Iterator[tuple[str, str]]:
    """Canonical SMILES, and in how many products of patents each one is, the most common first."""
    for number, (smiles, count) in read_cells(_FILE):
        if number > 1:
            yield smiles, f"common in patents, {count}"
