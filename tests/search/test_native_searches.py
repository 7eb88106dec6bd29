"""What the searches refuse of a loop that calls them in another order or with other arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from molspec._native import (
    BeamOptions,
    BeamSearch,
    DrafterFactory,
    GreedySearch,
    NoDraftOptions,
    SpeculativeBeamOptions,
    SpeculativeBeamSearch,
)
from molspec.drafting import guess_model
from tests.tiny import VOCABULARY

GUESS = guess_model(VOCABULARY, None)
LISTS = {"beam_size": 2, "n_best": 2, "max_length": 9, "length_penalty": 0.0}
APART = {"finished_apart": False, "lookahead_steps": 0, "node_budget": 0, "min_confidence": 0.0}
Search = GreedySearch | BeamSearch | SpeculativeBeamSearch
SEARCHES: dict[str, Callable[[], Search]] = {
    "greedy": lambda: GreedySearch(DrafterFactory(NoDraftOptions(), GUESS), 64, 9),
    "beam": lambda: BeamSearch(BeamOptions(**LISTS, **APART), GUESS, 64),  # type: ignore[arg-type]
    "SBS": lambda: SpeculativeBeamSearch(
        SpeculativeBeamOptions(**LISTS, nucleus=1.0),  # type: ignore[arg-type]
        None,
        GUESS,
        64,
    ),
}


def rows(count: int) -> np.ndarray:
    uniform = np.full((count, VOCABULARY.size), -np.log(VOCABULARY.size), np.float32)
    return uniform + np.arange(VOCABULARY.size, dtype=np.float32) / 100


@pytest.fixture(params=SEARCHES)
def search(request: pytest.FixtureRequest) -> Search:
    return SEARCHES[request.param]()


def test_nothing_is_read_that_was_not_planned(search: Search) -> None:
    message = r"^nothing is staged: expected plan\(\) after start\(\) and advance\(\)$"
    assert search.advance(rows(0)) == []
    search.start(0, [5, 6])
    with pytest.raises(ValueError, match=message):
        search.advance(rows(9))
    search.plan()
    search.start(1, [5, 6])
    with pytest.raises(ValueError, match=message):
        search.advance(rows(9))
    search.plan()
    search.advance(rows(len(search.nodes)))
    with pytest.raises(ValueError, match=message):
        search.advance(rows(9))


def test_log_probs_have_a_row_a_node_and_a_column_a_token(search: Search) -> None:
    search.start(0, [5, 6])
    search.plan()
    message = rf"^log_probs: expected \[at least 1, {VOCABULARY.size}\]$"
    for wrong in (rows(0), rows(1)[:, :0], rows(1)[:, 1:], rows(1)[0]):
        with pytest.raises(ValueError, match=message):
            search.advance(wrong)
    assert search.advance(rows(1)) == []


def test_arrays_stay_as_they_were(search: Search) -> None:
    search.start(0, [5, 6])
    search.plan()
    nodes, slots = search.nodes, search.path_slots
    before = nodes.copy(), slots.copy()
    for row in range(1, 64):
        search.start(row, [5] * row)
    search.plan()
    assert len(search.nodes) == 64
    np.testing.assert_array_equal(nodes, before[0])
    np.testing.assert_array_equal(slots, before[1])
