"""The decoder under many requests: every answer equals the one from `predict`, to the bit."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from molspec import Decoder, PredictOptions, Result
from molspec.decoding import scheduler
from molspec.prediction import decoder as decoder_module, queries
from molspec.prediction.model import Model
from tests import refused, tiny

MAX_LENGTH = 16
OPTIONS = (
    PredictOptions(max_length=MAX_LENGTH),
    PredictOptions(drafter="none", max_length=5),
    PredictOptions(drafter="windows", max_length=MAX_LENGTH),
    PredictOptions(n_best=3, max_length=MAX_LENGTH),
    PredictOptions(n_best=7, beam="standard", max_length=9),
    PredictOptions(
        n_best=2, augmentations=3, augment_below=0.05, canonical_queries=True, max_length=9
    ),
)
#: The target of requests for a log-prob.
TARGET = "CCO"
BAD = ("CC(C", "", "[U]", "C" * 300)


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny.drafting_model()


Request = tuple[str, PredictOptions, str | None]


def predicted(model: Model, request: Request) -> Result:
    query, options, target = request
    if target is not None:
        canonical = options.canonical_queries
        return model.log_probs([query], [target], canonical_queries=canonical)[0]
    return next(model.predict_stream([query], options))


def check(model: Model, submitted: dict[int, Request], answered: dict[int, Result]) -> None:
    assert answered.keys() == submitted.keys()
    known = {request: predicted(model, request) for request in dict.fromkeys(submitted.values())}
    for ticket, request in submitted.items():
        assert answered[ticket] == known[request]


def draw_request(draw: random.Random) -> Request:
    query = draw.choice(tiny.QUERIES) if draw.random() < 0.9 else draw.choice(BAD)
    return query, draw.choice(OPTIONS), TARGET if draw.random() < 0.1 else None


@pytest.mark.parametrize("batch_size", [1, 5, 16])
def test_mixed_requests_at_any_time_get_the_answers_of_predict(
    model: Model, batch_size: int
) -> None:
    draw = random.Random(batch_size)
    decoder = Decoder(model, batch_size)
    submitted: dict[int, Request] = {}
    answered: dict[int, Result] = {}
    cancelled = 0
    while len(submitted) < 340 or decoder.live_count:
        for _ in range(draw.randrange(2 * batch_size) if len(submitted) < 340 else 0):
            request = draw_request(draw)
            submitted[decoder.submit(*request[:2], target=request[2])] = request
        if decoder.live_count and draw.random() < 0.2:
            ticket = draw.choice([t for t in submitted if t not in answered])
            decoder.cancel(ticket)
            del submitted[ticket]
            cancelled += 1
        for ticket, result in decoder.step():
            assert ticket not in answered
            answered[ticket] = result
    check(model, submitted, answered)
    assert cancelled > 5
    assert sum(result.error is not None for result in answered.values()) > 10
    assert decoder.step() == []


def test_cancelling_frees_rows(model: Model) -> None:
    decoder = Decoder(model, 2)
    options = PredictOptions(n_best=3, max_length=MAX_LENGTH)
    tickets = [decoder.submit("CCO", options) for _ in range(5)]
    decoder.step()
    for ticket in (tickets[0], tickets[4], tickets[1]):
        decoder.cancel(ticket)
    assert decoder.live_count == 2
    done = dict(decoder.finish())
    assert sorted(done) == tickets[2:4]
    assert list(done.values()) == [predicted(model, ("CCO", options, None))] * 2
    for ticket in (tickets[0], tickets[2], 99, None):
        refused(rf"^ticket is {ticket}: expected one that is not ans", decoder.cancel, ticket)


def test_memory_does_not_grow_with_the_number_of_requests(model: Model) -> None:
    decoder = Decoder(model, 2)
    session = decoder._session
    sizes = []
    for repeat in range(6):
        for query in tiny.QUERIES:
            decoder.submit(query, OPTIONS[repeat % 4])
        list(decoder.finish())
        sizes.append((len(session._buffers.memory_cache), len(session._buffers.kv_cache)))  # type: ignore[attr-defined]
    assert sizes[4:] == [sizes[3]] * 2
    assert not decoder._rows
    assert len(decoder._free_rows) == 2


def test_invalid_options_are_refused(model: Model) -> None:
    for size in (0, 10**6):
        refused(f"^batch_size is {size}", Decoder, model, batch_size=size)
    decoder = Decoder(model)
    wrong: Any = {"n_best": 2}
    refused("^options is a dict", decoder.submit, "CCO", wrong)
    refused("^max_length is 9999", decoder.submit, "CCO", PredictOptions(max_length=9999))
    assert decoder.live_count == 0
    refused("^aligned is True", Decoder(model, 2).submit, "CCO", aligned=True)
    refused("^aligned is 'no': expected True, F", decoder.submit, "C", target="C", aligned="no")


class OddError(RuntimeError):
    """An exception of a user that has no message."""

    def __str__(self) -> str:
        raise self


@pytest.mark.parametrize(
    ("error", "told"), [(OddError(), "OddError"), (KeyError("a"), "KeyError: 'a'")]
)
@pytest.mark.parametrize("step", ["_spelt", "of", "_listed", "_rooted", "Result"])
def test_an_exception_at_any_step_ends_its_request_alone(
    model: Model, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception, told: str
) -> None:
    """When it is read, has a wider beam's drafter made, its answers listed, scored or returned."""
    requests = [(query, options) for query in tiny.QUERIES for options in OPTIONS]
    expected = [predicted(model, (*request, None)) for request in requests]
    bad, target = PredictOptions(n_best=9, drop_invalid=True, drafter="tree", max_length=9), None
    if step == "_rooted":
        bad, target = PredictOptions(), "CCCN"
    owner = decoder_module._Strategies if step == "of" else decoder_module
    made, config = getattr(owner, step), model.decode_config(bad)

    def fail(*given: Any, **options: Any) -> Any:
        if given[1:] == (config, 2) if step == "of" else "CCCN" in given and not options:
            raise error
        return made(*given, **options)

    monkeypatch.setattr(owner, step, fail)
    decoder = Decoder(model, 5)
    tickets = [decoder.submit(*request) for request in requests[:30]]
    failing = decoder.submit("CCCN", bad, target=target, aligned=True if target else None)
    tickets += [decoder.submit(*request) for request in requests[30:]]
    found = dict(decoder.finish())
    assert found[failing].error == told
    assert [found[ticket] for ticket in tickets] == expected
    assert len(decoder._free_rows) == 5


def test_the_spellings_of_a_long_target_share_steps_with_others(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = "CCN(CO)C(=O)OCCNC(C)CO" * 2
    expected = model.log_probs(["CCO"], [target], aligned=True)[0], model.predict(["CCN"])[0]
    monkeypatch.setattr(queries, "_MOST_TOGETHER", 99)
    monkeypatch.setattr(scheduler, "_MOST_GIVEN", 99)
    decoder = Decoder(model, 32)
    tickets = [decoder.submit("CCO", target=target, aligned=True), decoder.submit("CCN")]
    steps, found = 0, dict[int, Result]()
    while decoder.live_count:
        found.update(decoder.step())
        steps += 1
    assert tuple(found[ticket] for ticket in tickets) == expected
    assert steps > 20  # of up to 99 tokens, or a target


def test_threads_may_share_a_decoder(model: Model) -> None:
    decoder = Decoder(model, 8)
    barrier = Barrier(4)
    stop = Event()
    answered: dict[int, Result] = {}

    def work() -> None:
        while not stop.is_set() or decoder.live_count:
            answered.update(decoder.step())

    workers = [Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()

    def submit(seed: int) -> dict[int, Request]:
        draw = random.Random(seed)
        barrier.wait()
        requests = [draw_request(draw) for _ in range(40)]
        return {decoder.submit(*each[:2], target=each[2]): each for each in requests}

    with ThreadPoolExecutor(4) as threads:
        submitted = [pair for each in threads.map(submit, range(4)) for pair in each.items()]
    stop.set()
    for worker in workers:
        worker.join()
    check(model, dict(submitted), answered)


@pytest.mark.parametrize("at", [*range(0, 30, 7), *range(30, 900, 173)])
def test_an_interrupted_decoder_goes_on_or_says_that_it_is_spent(model: Model, at: int) -> None:
    """Ctrl-C at a line of the scheduler or of what it calls, in `finish`."""
    decoder, lines, options = Decoder(model, batch_size=2), count(), OPTIONS[0]
    queries = {decoder.submit(query, options): query for query in (*tiny.QUERIES[:5], "no SMILES")}
    found: dict[int, Result] = {}

    def trace(frame: Any, event: str, _: object) -> Any:
        if event == "line" and next(lines) == at:
            raise KeyboardInterrupt
        return trace if "molspec" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(KeyboardInterrupt):
            found.update(decoder.finish())
    finally:
        sys.settrace(before)
    try:
        for ticket, result in decoder.finish():
            assert ticket not in found
            found[ticket] = result
        assert found.keys() == queries.keys()
    except RuntimeError:
        refused(RuntimeError, "Decoder is spent", decoder.submit, "C")
    for ticket, result in found.items():
        assert result == predicted(model, (queries[ticket], options, None))
