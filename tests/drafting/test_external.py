"""External drafters: how they are called, and what is refused."""

import random
import re
from collections.abc import Sequence
from typing import Any

import pytest

import molspec
from molspec.drafting import (
    Drafter,
    DraftTree,
    LookAhead,
    Path,
    TreeDraft,
    WindowDrafts,
    native_options,
)
from molspec.prediction.model import Model
from molspec.prediction.results import Result
from tests import tiny

MAX_LENGTH = 20
QUERIES = tiny.QUERIES[:10]


class Recorded:
    """Proposes the next tokens of the model's own answers, with random tokens among them."""

    def __init__(self, answers: dict[tuple[int, ...], Sequence[int]], seed: int = 1) -> None:
        self._answers = answers
        self._draw = random.Random(seed)
        self.live: dict[int, Sequence[int]] = {}
        self.batches: list[int] = []

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        assert row not in self.live
        self.live[row] = self._answers.get(tuple(source_ids), source_ids)

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        self.batches.append(len({path.row for path in paths}))
        return [self._tree(path) for path in paths]

    def _tree(self, path: Path) -> DraftTree:
        answer = self.live[path.row]
        token_ids = list(answer[len(path.token_ids) :][:6])
        count = len(token_ids)
        log_probs = [-0.1 * (i + 1) for i in range(count)]
        junk = [self._draw.randrange(tiny.VOCABULARY.size) for _ in range(3)]
        parents = [*range(-1, count - 1), -1, -1, count - 1]
        return DraftTree([*token_ids, *junk], parents, [*log_probs, -1.0, -2.0, -3.0])

    def release(self, row: int) -> None:
        del self.live[row]


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny.drafting_model()


def recorded(model: Model, seed: int = 1) -> Recorded:
    answers = {}
    for query, result in zip(QUERIES, model.predict(QUERIES, max_length=MAX_LENGTH), strict=True):
        text = result.predictions[0].smiles
        answers[tuple(tiny.VOCABULARY.encode(query))] = tiny.VOCABULARY.encode(text) if text else []
    return Recorded(answers, seed)


def summaries(results: Sequence[Result]) -> list[list[tuple[str, float, bool]]]:
    return [[(p.smiles, p.log_prob, p.finished) for p in each.predictions] for each in results]


def test_drafter_with_right_answers_halves_decoder_calls(model: Model) -> None:
    plain = model.predict(QUERIES, drafter="none", max_length=MAX_LENGTH, batch_size=1)
    drafted = model.predict(QUERIES, drafter=recorded(model), max_length=MAX_LENGTH, batch_size=1)
    assert drafted.statistics.decoder_calls < plain.statistics.decoder_calls / 2
    assert drafted.statistics.accepted_tokens > 0


def test_a_drafter_is_called_once_a_round(model: Model) -> None:
    for batch_size in (1, 4):
        drafter = recorded(model)
        model.predict(QUERIES, drafter=drafter, max_length=MAX_LENGTH, batch_size=batch_size)
        assert max(drafter.batches) == batch_size


def test_look_ahead_accepts_drafter(model: Model) -> None:
    without_drafter = LookAhead(30, min_confidence=0.05)
    with_drafter = LookAhead(30, min_confidence=0.05, drafter=recorded(model))
    shared = {"n_best": 3, "max_length": MAX_LENGTH, "batch_size": 1}
    expected = model.predict(QUERIES, drafter=without_drafter, **shared)
    found = model.predict(QUERIES, drafter=with_drafter, **shared)
    assert summaries(found) == summaries(expected)
    assert found.statistics.nodes != expected.statistics.nodes


@pytest.mark.parametrize("beam_size", [1, 4])
def test_sbs_treats_external_drafter_like_native_one(model: Model, beam_size: int) -> None:
    windows = WindowDrafts(4, 6)

    class External:
        def __init__(self) -> None:
            self._native: dict[int, Any] = {}

        def start(self, row: int, source_ids: Sequence[int]) -> None:
            self._native[row] = molspec._native.NativeDrafter(
                native_options(windows), model.context.guess
            )
            self._native[row].start(source_ids)

        def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
            return [self._native[path.row].propose(path.token_ids) for path in paths]

        def release(self, row: int) -> None:
            del self._native[row]

    shared = {"n_best": beam_size, "beam": "sbs", "max_length": MAX_LENGTH}
    native = model.predict(QUERIES, drafter=windows, **shared)
    external = model.predict(QUERIES, drafter=External(), **shared)
    assert summaries(external) == summaries(native)
    assert external.statistics.nodes == native.statistics.nodes


def test_refuses_invalid_drafters(model: Model) -> None:
    with pytest.raises(ValueError, match=r"^drafter is the class Recorded: expected an object"):
        model.predict(["CCO"], drafter=Recorded)
    for wrong in (7, object()):
        with pytest.raises(
            ValueError, match=r"^drafter is .*: expected one of none, windows, tree"
        ):
            model.predict(["CCO"], drafter=wrong)
    assert isinstance(recorded(model), Drafter)
    assert not isinstance(TreeDraft(), Drafter)


class Wrong(Recorded):
    """Proposes a tree with a wrong entry."""

    def __init__(self, tree: DraftTree | None) -> None:
        super().__init__({})
        self._wrong = tree

    def propose(self, paths: Sequence[Path]) -> Any:
        return None if self._wrong is None else [self._wrong for _ in paths]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (DraftTree([4], [5], [0.0]), r"parents\[0\] is 5: expected -1 to -1"),
        (DraftTree([4], [-1], [3.0]), r"log_probs\[0\] is 3.*: expected at most its parent's, 0"),
        (DraftTree([4, 999], [-1, 0], [0.0, -0.1]), r"token_ids\[1\] is 999: expected 0 to"),
        (DraftTree([4], [-1, 0], [0.0]), "has 1 token_ids, 2 parents and 1 log_probs"),
        (None, "TypeError"),
    ],
)
def test_a_wrong_tree_is_named(model: Model, tree: DraftTree | None, message: str) -> None:
    (result,) = model.predict(["CCO"], drafter=Wrong(tree), max_length=8)
    assert re.match(f"drafter Wrong failed in propose: .*{message}", result.error or "")


def test_a_missing_tree_is_named(model: Model) -> None:
    class Few(Recorded):
        def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
            return []

    (result,) = model.predict(["CCO"], drafter=Few({}), max_length=8)
    expected = "drafter Few failed in propose: ValueError: gave 0 trees: expected 1, one a path"
    assert result.error == expected
