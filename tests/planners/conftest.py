"""Targets, a stock that contains the starting materials of routes, and searches for them."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from molspec.prediction.model import Model, load

#: From PaRoutes' set n1 (Genheden and Bjerrum 2022), as are the molecules of the stock.
TARGETS = (Path(__file__).parent / "targets.smi").read_text().split()
STOCK = Path(__file__).parent / "stock.smi"
#: Limit in expansions, so that a search is the same on every machine.
EXPANSIONS = 12
needs_syntheseus = pytest.mark.skipif(
    find_spec("syntheseus") is None, reason="Syntheseus is not installed: nox -s syntheseus has it"
)


@pytest.fixture(scope="module")
def retro() -> Model:
    return load("retro", dtype="int8")


def planner(
    expander: Any,
    stock: Iterable[str],
    algorithm: str = "retro-star",
    n_best: int = 5,
    **limits: Any,
) -> Any:
    """A planner of Syntheseus; without limits of its own it has ten minutes."""
    from molspec.planners.routes import SearchLimits
    from molspec.planners.search import Planner
    from molspec.planners.syntheseus import BackwardModel

    model = BackwardModel(expander=expander, default_num_results=n_best, use_cache=True)
    return Planner(model, stock, SearchLimits(**{"seconds": 600.0, **limits}), algorithm)
