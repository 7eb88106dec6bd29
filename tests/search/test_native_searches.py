"""The native searches refuse calls in a wrong order and with wrong arguments."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from molspec import _native
from molspec._native import Batch, BeamSpec, DraftTree, Sampling, SearchSpec, SequenceSpec
from molspec.drafting import guess_model
from molspec.text import Vocabulary
from tests import refused
from tests.tiny import TOKENS, VOCABULARY

STATM = Path("/proc/self/statm")
GUESS = guess_model(VOCABULARY, None)
BEAMS = {"beam_size": 2, "n_best": 2, "max_length": 9}
SPECS: dict[str, SearchSpec] = {
    "greedy": SequenceSpec(max_length=9, drafter=_native.NoDraftOptions()),
    "beam": BeamSpec(**BEAMS),
    "SBS": _native.SpeculativeBeamSpec(**BEAMS, nucleus=1.0, drafter=_native.NoDraftOptions()),
}


def sequence_spec(**options: Any) -> SequenceSpec:
    return SequenceSpec(**{"max_length": 9, "drafter": _native.NoDraftOptions(), **options})


def log_probs_of(count: int) -> np.ndarray:
    uniform = np.full((count, VOCABULARY.size), -np.log(VOCABULARY.size), np.float32)
    return uniform + np.arange(VOCABULARY.size, dtype=np.float32) / 100


def planned(spec: SearchSpec, source: Sequence[int] = (5, 6), guess: Any = GUESS) -> Batch:
    """A batch of 64 whose first row is planned."""
    batch = Batch(64, guess)
    batch.start(0, spec, [*source])
    batch.plan()
    return batch


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> SearchSpec:
    return SPECS[request.param]


def test_advance_is_refused_without_a_plan(spec: SearchSpec) -> None:
    batch = Batch(64, GUESS)
    message = r"^nothing is staged: expected plan\(\) after start\(\) and advance\(\)$"
    assert batch.advance(log_probs_of(0)) == []
    batch.start(0, spec, [5, 6])
    refused(message, batch.advance, log_probs_of(9))
    batch.plan()
    batch.start(1, spec, [5, 6])
    refused(message, batch.advance, log_probs_of(9))
    batch.plan()
    batch.advance(log_probs_of(len(batch.nodes)))
    refused(message, batch.advance, log_probs_of(9))
    batch.plan()
    batch.cancel(1)
    refused(message, batch.advance, log_probs_of(9))


def test_log_probs_of_wrong_shapes_are_refused(spec: SearchSpec) -> None:
    batch = planned(spec)
    message = rf"^log_probs: expected \[at least 1, {VOCABULARY.size}\]$"
    right = log_probs_of(1)
    for wrong in (log_probs_of(0), right[:, :0], right[:, 1:], right[0]):
        refused(message, batch.advance, wrong)
    assert batch.advance(right) == []


def test_later_plans_leave_earlier_arrays_unchanged(spec: SearchSpec) -> None:
    batch = planned(spec)
    nodes, slots = batch.nodes, batch.path_slots
    copies = nodes.copy(), slots.copy()
    for row in range(1, 64):
        batch.start(row, spec, [5] * row)
    batch.plan()
    assert len(batch.nodes) == 64
    np.testing.assert_array_equal(nodes, copies[0])
    np.testing.assert_array_equal(slots, copies[1])


def test_ids_outside_the_vocabulary_are_refused(spec: SearchSpec) -> None:
    batch = Batch(1, GUESS)
    for wrong in (-1, VOCABULARY.size):
        refused(rf"^token id is {wrong}: expected 0 to 12$", batch.start, 0, spec, [5, wrong])
    assert batch.live_count == 0


def test_wrong_rows_are_refused(spec: SearchSpec) -> None:
    batch = Batch(2, GUESS)
    refused("^row is 2: expected 0 to 1$", batch.start, 2, spec, [])
    batch.start(1, spec, [5])
    refused("^row 1 is taken$", batch.start, 1, spec, [5])
    refused("^row 0 is free$", batch.cancel, 0)
    assert batch.live_count == 1
    batch.cancel(1)
    assert batch.live_count == 0
    refused("^row_count is 0: expected at least 1$", Batch, 0, GUESS)


RELAXED = _native.Relaxed(beta=3, tau=9.0, judged_by_drafter=False)
SBS = {**BEAMS, "drafter": _native.NoDraftOptions()}


@pytest.mark.parametrize(
    ("made", "options", "argument", "value"),
    [
        (sequence_spec, {"max_length": 0}, "max_length", 0),
        (sequence_spec, {"samples": 2}, "samples", 2),
        (sequence_spec, {"samples": 2, "rule": RELAXED}, "samples", 2),
        (sequence_spec, {"samples": 0, "rule": Sampling()}, "samples", 0),
        (BeamSpec, {**BEAMS, "n_best": 3}, "n_best", 3),
        (BeamSpec, {**BEAMS, "min_confidence": 2.0}, "min_confidence", 2),
        (BeamSpec, {**BEAMS, "steps": -1}, "steps", -1),
        (BeamSpec, {**BEAMS, "length_penalty": -1.0}, "length_penalty", -1),
        (_native.SpeculativeBeamSpec, {**SBS, "nucleus": 0.0}, "nucleus", 0),
        (_native.ForcedSpec, {"max_length": 9, "min_length": 2}, "min_length", 2),
        (Sampling, {"temperature": 0.0}, "temperature", 0),
        (Sampling, {"top_k": 0}, "top_k", 0),
        (Sampling, {"top_p": 0.0}, "top_p", 0),
        (Sampling, {"top_p": 1.1}, "top_p", 1.1),
    ],
)
def test_invalid_specs_are_refused(
    made: Callable[..., object], options: dict[str, Any], argument: str, value: object
) -> None:
    refused(f"^{argument} is .*{value}", made, **options)


def test_specs_are_values() -> None:
    one, other = (sequence_spec(samples=2, rule=Sampling(seed=3)) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one not in (sequence_spec(samples=2, rule=Sampling(seed=4)), SPECS["greedy"], 3)
    assert BeamSpec(**BEAMS) != _native.SpeculativeBeamSpec(
        **BEAMS, nucleus=1.0, drafter=_native.NoDraftOptions()
    )


def test_specs_name_the_settings_that_are_not_their_defaults() -> None:
    assert sequence_spec(samples=1).given == ["max_length", "drafter"]
    assert BeamSpec(**BEAMS, steps=2).given == ["max_length", "beam_size", "n_best", "steps"]


EXTERNAL = (
    SequenceSpec(max_length=9, drafter=_native.ExternalOptions()),
    _native.SpeculativeBeamSpec(**BEAMS, nucleus=1.0, drafter=_native.ExternalOptions()),
    BeamSpec(**BEAMS, steps=3, node_budget=5, min_confidence=0.0, proposed=True),
)


def certain(token_id: int, rows: int = 2) -> np.ndarray:
    """Distributions in which one token is certain."""
    return np.eye(VOCABULARY.size)[[token_id] * rows]


def chain(drawn_from: np.ndarray, parents: Sequence[int] = (-1, 0)) -> DraftTree:
    return DraftTree([5, 6], parents, [-1.0, -2.0], drawn_from)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (DraftTree([13], [-1], [0]), r"token_ids\[0\] is 13: expected 0 to 12$"),
        (DraftTree([-1], [-1], [0]), r"token_ids\[0\] is -1: expected 0 to 12$"),
        (DraftTree([5, 6], [-1, 1], [0, 0]), r"parents\[1\] is 1: expected -1 to 0$"),
        (DraftTree([5], [-2], [0]), r"parents\[0\] is -2: expected -1 to -1$"),
        (DraftTree([5, 6], [-1, 0], [-1, 0]), r"log_probs\[1\] is 0: expected at most its par"),
        (DraftTree([5], [-1], [np.nan]), r"log_probs\[0\] is nan: expected at most"),
        (DraftTree([5], [-1], []), "1 token_ids, 1 parents and 0 log_probs: expected as many"),
        (chain(certain(5, 1)), r"drawn_from has 13 entries: expected \[2, 13\]"),
        (chain(certain(5), (-1, -1)), r"parents\[1\] is -1: expected 0, a chain"),
        (chain(certain(5) / 2), r"drawn_from\[0\] is 0.5: expected a sum of 1"),
        (chain(-certain(5)), r"drawn_from\[0\] is -1: expected a probability"),
        (chain(certain(VOCABULARY.eos_id)), r"drawn_from\[0\] is 1: .* 0 of BOS, EOS"),
    ],
)
def test_wrong_trees_are_refused(tree: DraftTree, message: str) -> None:
    refused(f"^a proposed tree('s| has) {message}", GUESS.admitted, tree)


def test_a_tree_without_nodes_has_no_distributions() -> None:
    assert DraftTree(drawn_from=np.ones(VOCABULARY.size)).drawn_from is None


@pytest.mark.parametrize("external", EXTERNAL)
def test_proposed_trees_are_checked_before_use(external: SearchSpec) -> None:
    batch = Batch(2, GUESS)
    batch.start(0, external, [5, 6])
    batch.start(1, SPECS["greedy"], [5, 6])
    (path,) = batch.paths()
    assert (path.row, path.token_ids, path.log_prob) == (0, [], 0.0)
    for count in (0, 2):
        trees = [GUESS.admitted(DraftTree())] * count
        refused(f"^proposed has {count} trees: expected 1, one a path$", batch.plan, trees)
    refused(TypeError, "incompatible function arguments", batch.plan, [DraftTree()])
    larger = replace(VOCABULARY, tokens=(*VOCABULARY.tokens, "S"))
    for vocabulary in (larger, replace(VOCABULARY, unk_id=None)):
        tree = guess_model(vocabulary, None).admitted(DraftTree([5], [-1], [-0.1]))
        refused("^a proposed tree was admitted for another vocab", batch.plan, [tree])
    eos = VOCABULARY.eos_id
    # EOS and the nodes after it are dropped; equal tokens of one parent become one node.
    tree = DraftTree([5, eos, 6, 5, 7], [-1, -1, 1, -1, 3], [-0.1, -3, -4, -0.2, -0.3])
    batch.plan([GUESS.admitted(tree)])
    tokens = [tuple(node) for node in batch.nodes[:, :2].tolist()]
    assert tokens.count((5, 1)) == 1
    assert (7, 2) in tokens
    assert eos not in [token_id for token_id, _ in tokens]


def test_an_invalid_tree_leaves_the_plan_before_it_unchanged() -> None:
    relaxed = _native.Relaxed(beta=VOCABULARY.size, tau=9.0, judged_by_drafter=False)
    batch = Batch(1, GUESS)
    batch.start(0, sequence_spec(drafter=_native.ExternalOptions(), rule=relaxed), [5, 6])
    tree = GUESS.admitted(DraftTree([5, 6], [-1, 0], [-0.1, -0.2]))
    batch.plan([tree])
    refused("proposed has 2 trees", batch.plan, [tree, tree])
    assert batch.advance(log_probs_of(3)) == []
    (path,) = batch.paths()
    assert path.token_ids == [5, 6, VOCABULARY.size - 1]


def test_a_repeated_plan_stages_the_same_nodes() -> None:
    """As after an interrupt: no draft may stay without a step."""
    spec = BeamSpec(**BEAMS, steps=4, node_budget=2, min_confidence=0.0)
    batch = planned(spec, [5, 6, 7])
    nodes, path_slots = batch.nodes, batch.path_slots
    assert len(nodes) == 3
    batch.plan()
    assert np.array_equal(batch.nodes, nodes)
    assert np.array_equal(batch.path_slots, path_slots)


def test_a_forced_target_is_one_chain() -> None:
    batch = planned(_native.ForcedSpec(max_length=21), [5] * 20)
    assert batch.nodes[:, 1].tolist() == list(range(21))
    assert len(batch.path_slots) == 21
    log_probs = log_probs_of(21)
    (decoded,) = batch.advance(log_probs)
    expected = [*log_probs[:20, 5], log_probs[20, VOCABULARY.eos_id]]
    assert decoded.hypotheses[0].log_prob == np.cumsum(expected, dtype=np.float64)[-1]


def test_forced_targets_are_a_tree_of_their_beginnings() -> None:
    targets = [[5, 6, 7], [5, 6], [], [5, 8, 7, 6], [5, 6, 7]]
    eos = VOCABULARY.eos_id
    joined = [token for target in targets for token in (*target, eos)][:-1]
    batch = planned(_native.ForcedSpec(max_length=5, token_log_probs=True), joined)
    nodes = ["", "5", "56", "567", "58", "587", "5876"]  # by the tokens that lead to them
    assert batch.nodes[1:, 0].tolist() == [int(path[-1]) for path in nodes[1:]]
    assert batch.nodes[:, 1].tolist() == [len(path) for path in nodes]
    log_probs = np.random.default_rng(0).normal(size=(7, VOCABULARY.size)).astype(np.float32)
    (decoded,) = batch.advance(log_probs)
    assert [each.token_ids for each in decoded.hypotheses] == targets
    for target, found in zip(targets, decoded.hypotheses, strict=True):
        text = "".join(map(str, target))
        rows = [nodes.index(text[:length]) for length in range(len(text) + 1)]
        expected = log_probs[rows, [*target, eos]]
        assert found.token_log_probs == expected.tolist()
        assert found.log_prob == np.cumsum(expected, dtype=np.float64)[-1]


@pytest.mark.parametrize("ids", [[5] * 5, [5, VOCABULARY.eos_id, *[5] * 5]])
def test_longer_targets_are_refused(ids: list[int]) -> None:
    batch, spec = Batch(1, GUESS), _native.ForcedSpec(max_length=5)
    refused("^target has 6 tokens, EOS counted: expected", batch.start, 0, spec, ids)
    assert batch.live_count == 0


@pytest.mark.skipif(not STATM.exists(), reason="reads the memory of a process as Linux tells it")
def test_memory_grows_with_the_batch_not_with_its_square() -> None:
    batch, rows = Batch(2000, GUESS), range(2000)
    before = resident_bytes()
    for row in rows:
        batch.start(row, SequenceSpec(max_length=60, drafter=_native.NoDraftOptions()), [5, 6])
    for _ in range(30):
        batch.plan()
        assert batch.advance(log_probs_of(len(batch.nodes))) == []
    assert resident_bytes() - before < 100e6  # a number a row and slot would be 512 MB


def resident_bytes() -> int:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("size", [16, 17, 300, 700])
def test_a_beam_takes_the_likeliest_tokens_and_the_lower_id_among_equals(size: int) -> None:
    vocabulary = Vocabulary([*TOKENS[:4], *(f"[{i}*]" for i in range(size - 4))], unk_id=3)
    draw = np.random.default_rng(size)
    for count in (1, 10):
        row = -draw.integers(1, 1 + size // 5, size).astype(np.float32)
        row[[5, 9]] = np.nan, -np.inf
        spec = BeamSpec(beam_size=count, n_best=count, max_length=1)
        batch = planned(spec, [], guess_model(vocabulary, None))
        (done,) = batch.advance(row[None])
        found = [each.token_ids or [vocabulary.eos_id] for each in done.hypotheses]
        order = sorted(set(range(size)) - {5}, key=lambda token: (-row[token], token))
        assert found == [[token] for token in order[:count]]
