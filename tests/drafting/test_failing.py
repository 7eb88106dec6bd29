"""A drafter or an encoder fails for one query: it gets the error, and the others are answered."""

from collections.abc import Callable, Sequence
from pathlib import Path as FilePath
from typing import Any

import pytest

import molspec
from molspec import Decoder, PredictOptions
from molspec.checkpoints.folder import write
from molspec.drafting import DraftTree, ModelDraft, Path
from molspec.engine import ops
from molspec.engine.cpu.engine import NativeEngine
from molspec.prediction.model import Model
from tests import tiny
from tests.drop_in.models import BOS, EOS, PAD, PlainTransformer

QUERIES = tiny.QUERIES[:7]
#: The query that fails.
BAD = 3
BAD_IDS = tiny.VOCABULARY.encode(QUERIES[BAD])
OPTIONS: tuple[dict[str, Any], ...] = ({"max_length": 12}, {"n_best": 3, "max_length": 9})


class Failing:
    """Copies the source, but fails for one query in `method` or with `trees`."""

    def __init__(self, method: str, trees: Callable[[int], Any] | None = None) -> None:
        self._method = method
        self._trees = trees
        self.live: dict[int, list[int]] = {}

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        assert row not in self.live
        self._fail("start", list(source_ids))
        self.live[row] = list(source_ids)

    def propose(self, paths: Sequence[Path]) -> Any:
        trees: list[Any] = []
        for path in paths:
            source = self.live[path.row]
            self._fail("propose", source)
            if self._trees is not None and source == BAD_IDS:
                trees += self._trees(len(paths))
                continue
            drafted = source[len(path.token_ids) :][:4]
            parents = range(-1, len(drafted) - 1)
            trees.append(DraftTree(drafted, [*parents], [-0.1 * (i + 2) for i in parents]))
        return trees

    def release(self, row: int) -> None:
        self._fail("release", self.live.pop(row))

    def _fail(self, method: str, source_ids: Sequence[int]) -> None:
        if method == self._method and source_ids == BAD_IDS:
            raise LookupError("nothing is known of this one")


FAULTS: dict[str, tuple[Callable[[], Failing], str]] = {
    "start": (lambda: Failing("start"), "start: LookupError: nothing is known of this one"),
    "propose": (lambda: Failing("propose"), "propose: LookupError: nothing is known of this one"),
    "release": (lambda: Failing("release"), "release: LookupError: nothing is known of this one"),
    "too few trees": (lambda: Failing("", lambda _: []), "propose: ValueError: gave 0 trees"),
    "too many trees": (
        lambda: Failing("", lambda _: [DraftTree()] * 2),
        "propose: ValueError: gave 2 trees: expected 1",
    ),
    "no tree": (lambda: Failing("", lambda _: [None]), "propose: TypeError: "),
    "no next tree": (lambda: Failing("", lambda _: next(iter([]))), "propose: StopIteration"),
    "no such token": (
        lambda: Failing("", lambda _: [DraftTree([99], [-1], [0.0])]),
        r"propose: ValueError: .*token_ids\[0\] is 99: expected 0 to 12",
    ),
}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("fault", FAULTS)
def test_failing_drafter_fails_only_its_query(
    model: Model, fault: str, batch_size: int, options: dict[str, Any]
) -> None:
    make, message = FAULTS[fault]
    drafter = make()
    expected = model.predict(QUERIES, drafter="none", **options)
    decoder = Decoder(model, batch_size)
    request = PredictOptions(**options, drafter=drafter)
    for _ in range(2 * batch_size):  # reuses every row
        tickets = [decoder.submit(query, request) for query in QUERIES]
        found = dict(decoder.finish())
        assert sorted(found) == tickets
        for index, ticket in enumerate(tickets):
            if index == BAD:
                error = found[ticket].error
                assert error is not None
                assert error.startswith("drafter Failing failed in ")
                with pytest.raises(ValueError, match=message):
                    raise ValueError(error)
            else:
                assert found[ticket].predictions == expected[index].predictions
    assert drafter.live == {}


def test_broken_drafter_fails_only_its_own_queries(model: Model) -> None:
    class Broken(Failing):
        def propose(self, paths: Sequence[Path]) -> Any:
            raise RuntimeError(f"{len(paths)}")

    decoder = Decoder(model, 4)
    broken = [decoder.submit(query, PredictOptions(drafter=Broken(""))) for query in QUERIES]
    others = [decoder.submit(query) for query in QUERIES]
    found = dict(decoder.finish())
    for ticket in broken:
        assert found[ticket].error == "drafter Broken failed in propose: RuntimeError: 1"
    assert [found[ticket] for ticket in others] == list(model.predict(QUERIES))


def test_query_whose_drafter_fails_on_release_is_cancelled(model: Model) -> None:
    decoder = Decoder(model, 1)
    drafter = Failing("release")
    ticket = decoder.submit(QUERIES[BAD], PredictOptions(drafter=drafter, max_length=50))
    decoder.step()
    decoder.cancel(ticket)
    other = decoder.submit(QUERIES[0])
    assert dict(decoder.finish()) == {other: model.predict([QUERIES[0]])[0]}


def test_failing_view_fails_its_query_and_frees_its_rows(model: Model) -> None:
    decoder = Decoder(model, 3)
    drafter = Failing("start")
    options = PredictOptions(n_best=2, augmentations=4, canonical_queries=True, drafter=drafter)
    tickets = [decoder.submit(query, options) for query in QUERIES]
    results = dict(decoder.finish())
    assert [ticket for ticket in tickets if results[ticket].error is not None] == [tickets[BAD]]
    assert drafter.live == {}


def fail_to_encode(monkeypatch: pytest.MonkeyPatch, applies_to: Callable[[Any], bool]) -> None:
    """Makes encoding of the bad query fail in engines whose weights `applies_to` selects."""
    encode = ops.encode
    begin, end = [BOS], [EOS]
    bad = [*begin, *BAD_IDS, *end]

    def failing(weights: Any, table: Any, source_ids: Any, *rest: Any) -> None:
        ids = source_ids.tolist()
        if applies_to(weights) and any(
            ids[start : start + len(bad)] == bad for start in range(len(ids))
        ):
            raise RuntimeError("it overheats")
        encode(weights, table, source_ids, *rest)

    monkeypatch.setattr(ops, "encode", failing)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_encoder_error_fails_only_its_query(
    monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    model = tiny.model()
    expected = model.predict(QUERIES, max_length=12)
    fail_to_encode(monkeypatch, lambda _: True)
    decoder = Decoder(model, batch_size)
    for _ in range(2 * batch_size):
        tickets = [decoder.submit(query, PredictOptions(max_length=12)) for query in QUERIES]
        found = dict(decoder.finish())
        assert found[tickets.pop(BAD)].error == "RuntimeError: it overheats"
        assert [found[t] for t in tickets] == [r for i, r in enumerate(expected) if i != BAD]


def test_encoder_error_of_drafting_model_fails_only_its_query(
    model: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: FilePath
) -> None:
    write(tiny.checkpoint(2), tmp_path / "small")
    expected = model.predict(QUERIES, drafter="none", max_length=12)
    assert isinstance(model.engine, NativeEngine)
    own_weights = model.engine.packed.weights
    fail_to_encode(monkeypatch, lambda weights: weights is not own_weights)
    drafter = ModelDraft(tmp_path / "small", gamma=3)
    found = model.predict(QUERIES, drafter=drafter, max_length=12, batch_size=4)
    error = "drafter ModelDrafter failed in propose: RuntimeError: it overheats"
    assert [r.error for r in found] == [error if i == BAD else None for i in range(len(QUERIES))]
    for actual, reference in zip(found, expected, strict=True):
        assert actual.error or actual.predictions == reference.predictions


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_decode_raises_error_of_drafter() -> None:
    module = PlainTransformer(tiny.VOCABULARY.size)
    special = {"bos_id": BOS, "eos_id": EOS, "pad_id": PAD}
    source_ids = [[BOS, *tiny.VOCABULARY.encode(query), EOS] for query in QUERIES]
    with pytest.raises(RuntimeError, match=r"^drafter Failing failed in start: Look"):
        molspec.decode(module, source_ids, **special, max_length=8, drafter=Failing("start"))
