from pathlib import Path

import pytest

from molspec import checkpoints
from tests import tiny

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the scripts import one another, as when they are run."""
    for folder in (BENCH, BENCH / "campaigns", BENCH / "gpu"):
        monkeypatch.syspath_prepend(folder)


@pytest.fixture
def tiny_model(tmp_path: Path) -> str:
    """The folder of a random model."""
    checkpoints.write(tiny.checkpoint(), tmp_path / "tiny")
    return str(tmp_path / "tiny")


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table of queries that are their own targets."""
    rows = "".join(f"{query}\t{query}\n" for query in tiny.QUERIES[:6])
    (tmp_path / "table.tsv").write_text(f"query\ttarget\n{rows}")
    return str(tmp_path / "table.tsv")
