"""What the searches refuse of a loop that calls them in another order or with other arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from molspec._native import (
    Batch,
    BeamSpec,
    DraftTree,
    ExternalOptions,
    ForcedSpec,
    NoDraftOptions,
    Relaxed,
    Sampling,
    SearchSpec,
    SequenceSpec,
    SpeculativeBeamSpec,
)
from molspec.drafting import guess_model
from tests.tiny import VOCABULARY

GUESS = guess_model(VOCABULARY, None)
LISTS = {"beam_size": 2, "n_best": 2, "max_length": 9}
SPECS: dict[str, SearchSpec] = {
    "greedy": SequenceSpec(max_length=9, drafter=NoDraftOptions()),
    "beam": BeamSpec(**LISTS),
    "SBS": SpeculativeBeamSpec(**LISTS, nucleus=1.0, drafter=NoDraftOptions()),
}


def sequences(**options: Any) -> SequenceSpec:
    return SequenceSpec(max_length=9, drafter=NoDraftOptions(), **options)


def rows(count: int) -> np.ndarray:
    uniform = np.full((count, VOCABULARY.size), -np.log(VOCABULARY.size), np.float32)
    return uniform + np.arange(VOCABULARY.size, dtype=np.float32) / 100


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> SearchSpec:
    return SPECS[request.param]


def test_nothing_is_read_that_was_not_planned(spec: SearchSpec) -> None:
    batch = Batch(64, GUESS)
    message = r"^nothing is staged: expected plan\(\) after start\(\) and advance\(\)$"
    assert batch.advance(rows(0)) == []
    batch.start(0, spec, [5, 6])
    with pytest.raises(ValueError, match=message):
        batch.advance(rows(9))
    batch.plan()
    batch.start(1, spec, [5, 6])
    with pytest.raises(ValueError, match=message):
        batch.advance(rows(9))
    batch.plan()
    batch.advance(rows(len(batch.nodes)))
    with pytest.raises(ValueError, match=message):
        batch.advance(rows(9))
    batch.plan()
    batch.cancel(1)
    with pytest.raises(ValueError, match=message):
        batch.advance(rows(9))


def test_log_probs_have_a_row_a_node_and_a_column_a_token(spec: SearchSpec) -> None:
    batch = Batch(64, GUESS)
    batch.start(0, spec, [5, 6])
    batch.plan()
    message = rf"^log_probs: expected \[at least 1, {VOCABULARY.size}\]$"
    for wrong in (rows(0), rows(1)[:, :0], rows(1)[:, 1:], rows(1)[0]):
        with pytest.raises(ValueError, match=message):
            batch.advance(wrong)
    assert batch.advance(rows(1)) == []


def test_arrays_stay_as_they_were(spec: SearchSpec) -> None:
    batch = Batch(64, GUESS)
    batch.start(0, spec, [5, 6])
    batch.plan()
    nodes, slots = batch.nodes, batch.path_slots
    before = nodes.copy(), slots.copy()
    for row in range(1, 64):
        batch.start(row, spec, [5] * row)
    batch.plan()
    assert len(batch.nodes) == 64
    np.testing.assert_array_equal(nodes, before[0])
    np.testing.assert_array_equal(slots, before[1])


def test_rows_that_are_wrong_are_named(spec: SearchSpec) -> None:
    batch = Batch(2, GUESS)
    with pytest.raises(ValueError, match=r"^row is 2: expected 0 to 1$"):
        batch.start(2, spec, [])
    batch.start(1, spec, [5])
    with pytest.raises(ValueError, match=r"^row 1 is taken$"):
        batch.start(1, spec, [5])
    with pytest.raises(ValueError, match=r"^row 0 is free$"):
        batch.cancel(0)
    assert batch.live_count == 1
    batch.cancel(1)
    assert batch.live_count == 0
    with pytest.raises(ValueError, match=r"^row_count is 0: expected at least 1$"):
        Batch(0, GUESS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SequenceSpec(max_length=0, drafter=NoDraftOptions()), "max_length is 0: expected"),
        (lambda: sequences(samples=2), "samples is 2: expected 1 without sampling"),
        (lambda: sequences(rejection=True), "rejection is true: expected sampling with it"),
        (
            lambda: sequences(
                sampling=Sampling(), relaxed=Relaxed(beta=1, tau=1.0, judged_by_drafter=False)
            ),
            "relaxed is given with sampling: expected one of them",
        ),
        (lambda: BeamSpec(beam_size=2, n_best=3, max_length=9), "n_best is 3: expected 1 to"),
        (lambda: BeamSpec(**LISTS, min_confidence=2.0), "min_confidence is 2: expected 0 to 1"),
        (lambda: BeamSpec(**LISTS, steps=-1), "steps is -1: expected at least 0"),
        (lambda: BeamSpec(**LISTS, length_penalty=-1.0), "length_penalty is -1: expected at least"),
        (
            lambda: BeamSpec(**LISTS, length_penalty=1.0, sampling=Sampling()),
            "length_penalty is 1: expected 0 with sampling",
        ),
        (
            lambda: BeamSpec(**LISTS, finished_apart=True, sampling=Sampling()),
            "finished_apart is true: expected false with sampling",
        ),
        (
            lambda: SpeculativeBeamSpec(**LISTS, nucleus=0.0, drafter=NoDraftOptions()),
            "nucleus is 0: expected more than 0, at most 1",
        ),
    ],
)
def test_specs_that_make_no_sense_are_refused(make: Callable[[], SearchSpec], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        make()


EXTERNAL = (
    SequenceSpec(max_length=9, drafter=ExternalOptions()),
    SpeculativeBeamSpec(**LISTS, nucleus=1.0, drafter=ExternalOptions()),
    BeamSpec(**LISTS, steps=3, node_budget=5, min_confidence=0.0, proposed=True),
)


@pytest.mark.parametrize("external", EXTERNAL)
def test_a_proposed_tree_is_looked_at_before_it_is_used(external: SearchSpec) -> None:
    batch = Batch(2, GUESS)
    batch.start(0, external, [5, 6])
    batch.start(1, SPECS["greedy"], [5, 6])
    (path,) = batch.paths()
    assert (path.row, path.token_ids, path.log_prob) == (0, [], 0.0)
    wrong = [
        ([], "^proposed has 0 trees: expected 1, one a path$"),
        ([DraftTree(), DraftTree()], "^proposed has 2 trees: expected 1, one a path$"),
        ([DraftTree([13], [-1], [0])], r"token_ids\[0\] is 13: expected 0 to 12$"),
        ([DraftTree([-1], [-1], [0])], r"token_ids\[0\] is -1: expected 0 to 12$"),
        ([DraftTree([5, 6], [-1, 1], [0, 0])], r"parents\[1\] is 1: expected -1 to 0$"),
        ([DraftTree([5], [-2], [0])], r"parents\[0\] is -2: expected -1 to -1$"),
        ([DraftTree([5, 6], [-1, 0], [-1, 0])], r"log_probs\[1\] is 0: expected at most its par"),
        ([DraftTree([5], [-1], [np.nan])], r"log_probs\[0\] is nan: expected at most"),
        (
            [DraftTree([5], [-1], [])],
            "1 token_ids, 1 parents and 0 log_probs: expected as many",
        ),
    ]
    for proposed, message in wrong:
        with pytest.raises(ValueError, match=message):
            batch.plan(proposed)
    eos = VOCABULARY.eos_id
    # Behind EOS stands nothing; the same token twice is one node.
    tree = DraftTree([5, eos, 6, 5, 7], [-1, -1, 1, -1, 3], [-0.1, -3, -4, -0.2, -0.3])
    batch.plan([tree])
    tokens = [tuple(node) for node in batch.nodes[:, :2].tolist()]
    assert tokens.count((5, 1)) == 1
    assert (7, 2) in tokens
    assert eos not in [token_id for token_id, _ in tokens]


def test_a_forced_target_is_one_chain() -> None:
    batch = Batch(1, GUESS)
    batch.start(0, ForcedSpec(), [5] * 20)
    batch.plan()
    assert batch.nodes[:, 1].tolist() == list(range(21))
    assert len(batch.path_slots) == 21
    log_probs = rows(21)
    (decoded,) = batch.advance(log_probs)
    expected = [*log_probs[:20, 5], log_probs[20, VOCABULARY.eos_id]]
    assert decoded.hypotheses[0].log_prob == np.cumsum(expected, dtype=np.float64)[-1]
