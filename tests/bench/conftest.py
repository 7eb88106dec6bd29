from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from molspec import checkpoints
from tests import tiny

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """The scripts run torch on one thread, and say so for their process alone."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts import one another as they do when they are run."""
    monkeypatch.syspath_prepend(BENCH)


@pytest.fixture
def tiny_model(tmp_path: Path) -> str:
    """A random model's folder."""
    checkpoints.write(tiny.checkpoint(), tmp_path / "tiny")
    return str(tmp_path / "tiny")


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Queries, each its own target."""
    rows = "".join(f"{query}\t{query}\n" for query in tiny.QUERIES[:6])
    (tmp_path / "table.tsv").write_text(f"query\ttarget\n{rows}")
    return str(tmp_path / "table.tsv")
