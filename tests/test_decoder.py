"""Requests that come and go: every answer is the one that `predict` gives alone, to the bit."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Event, Thread
from typing import Any

import pytest
import torch

from molspec import Decoder, PredictOptions, Result
from molspec.drafting import LookAhead, WindowDrafts, build_ngram
from molspec.predictor import Model
from tests import tiny

MAX_LENGTH = 16
OPTIONS = (
    PredictOptions(max_length=MAX_LENGTH),
    PredictOptions(drafter="none", max_length=5),
    PredictOptions(drafter="windows", max_length=MAX_LENGTH),
    PredictOptions(n_best=3, max_length=MAX_LENGTH),
    PredictOptions(n_best=3, drafter=LookAhead(12, min_confidence=0.1), max_length=MAX_LENGTH),
    PredictOptions(n_best=7, beam="standard", max_length=9),
    PredictOptions(n_best=2, finished="separate", length_penalty=0.5, max_length=MAX_LENGTH),
    PredictOptions(n_best=2, beam="sbs", drafter=WindowDrafts(4, 4), max_length=MAX_LENGTH),
    PredictOptions(n_best=2, augmentations=2, canonical_queries=True, max_length=9),
    PredictOptions(
        n_best=2, augmentations=3, augment_below=0.05, canonical_queries=True, max_length=9
    ),
    PredictOptions(n_best=3, merge_duplicates=True, max_length=9),
)
#: Asked for the log-prob of this.
TARGET = "CCO"
BAD = ("CC(C", "", "[U]", "C" * 300)


def drafting_model(dtype: str = "float32") -> Model:
    """With an n-gram model of the queries, so that what is drafted is accepted at times."""
    sources = [tiny.VOCABULARY.encode(query) for query in tiny.QUERIES]
    pairs = list(zip(sources, sources, strict=True))
    ngram = build_ngram(tiny.VOCABULARY, pairs, min_gain=0.0, rewrites=False)
    return Model(replace(tiny.checkpoint(), ngram=ngram), dtype)


@pytest.fixture(scope="module")
def model() -> Model:
    return drafting_model()


Asked = tuple[str, PredictOptions, str | None]


def alone(model: Model, asked: Asked) -> Result:
    query, options, target = asked
    if target is not None:
        canonical = options.canonical_queries
        return model.log_probs([query], [target], canonical_queries=canonical)[0]
    return next(model.predict_stream([query], options))


def draw_request(draw: random.Random) -> Asked:
    query = draw.choice(tiny.QUERIES) if draw.random() < 0.9 else draw.choice(BAD)
    return query, draw.choice(OPTIONS), TARGET if draw.random() < 0.1 else None


@pytest.mark.parametrize("batch_size", [1, 5, 16])
def test_requests_of_any_options_at_any_moment(model: Model, batch_size: int) -> None:
    draw = random.Random(batch_size)
    known: dict[Asked, Result] = {}
    decoder = Decoder(model, batch_size)
    asked: dict[int, Asked] = {}
    answered: dict[int, Result] = {}
    cancelled = 0
    while len(asked) < 340 or decoder.live_count:
        for _ in range(draw.randrange(2 * batch_size) if len(asked) < 340 else 0):
            request = draw_request(draw)
            asked[decoder.submit(*request[:2], target=request[2])] = request
        if decoder.live_count and draw.random() < 0.2:
            ticket = draw.choice([t for t in asked if t not in answered])
            decoder.cancel(ticket)
            del asked[ticket]
            cancelled += 1
        for ticket, result in decoder.step():
            assert ticket not in answered
            answered[ticket] = result
    assert answered.keys() == asked.keys()
    assert cancelled > 5
    for ticket, request in asked.items():
        if request not in known:
            known[request] = alone(model, request)
        assert answered[ticket] == known[request]
    assert sum(result.error is not None for result in answered.values()) > 10
    assert decoder.step() == []


def test_the_order_of_arrival_does_not_matter(model: Model) -> None:
    requests = [(query, options, None) for query in tiny.QUERIES[:6] for options in OPTIONS]
    found = []
    for seed in (1, 2):
        decoder = Decoder(model, 4)
        order = random.Random(seed).sample(range(len(requests)), len(requests))
        tickets = {decoder.submit(*requests[index][:2]): index for index in order}
        answers = {}
        while decoder.live_count:
            answers.update((tickets[ticket], result) for ticket, result in decoder.step())
        found.append([answers[index] for index in range(len(requests))])
    assert found[0] == found[1]


def test_an_answer_is_given_back_whatever_came_before_it(model: Model) -> None:
    decoder = Decoder(model, 2)
    slow = decoder.submit("CC(=O)Oc1ccc2c(c1)CCN2", PredictOptions(drafter="none", max_length=99))
    quick = [decoder.submit("CCO", PredictOptions(max_length=1)) for _ in range(9)]
    order = [ticket for _ in range(20) for ticket, _ in decoder.step()]
    assert order[: len(quick)] == quick
    assert slow not in quick


def test_what_cannot_be_read_is_answered_by_the_next_step(model: Model) -> None:
    decoder = Decoder(model, 1)
    wrong = decoder.submit("CC(C")
    worse: Any = 7
    other = decoder.submit(worse)
    assert decoder.live_count == 2
    errors = {ticket: result.error for ticket, result in decoder.step()}
    assert "not a molecule to RDKit" in (errors[wrong] or "")
    assert errors[other]
    assert decoder.live_count == 0


def test_cancelling_frees_rows(model: Model) -> None:
    decoder = Decoder(model, 2)
    options = PredictOptions(n_best=3, max_length=MAX_LENGTH)
    tickets = [decoder.submit("CCO", options) for _ in range(5)]
    decoder.step()
    for ticket in (tickets[0], tickets[4], tickets[1]):
        decoder.cancel(ticket)
    assert decoder.live_count == 2
    done: dict[int, Result] = {}
    while decoder.live_count:
        done.update(decoder.step())
    assert sorted(done) == tickets[2:4]
    assert list(done.values()) == [alone(model, ("CCO", options, None))] * 2
    for ticket in (tickets[0], tickets[2], 99, None):
        with pytest.raises(ValueError, match=rf"^ticket is {ticket}: expected one that is not ans"):
            decoder.cancel(ticket)  # type: ignore[arg-type]


def test_memory_is_that_of_the_rows_however_many_requests_come(model: Model) -> None:
    decoder = Decoder(model, 2)
    session = decoder._session
    sizes = []
    for turn in range(6):
        for query in tiny.QUERIES:
            decoder.submit(query, OPTIONS[turn % 4])
        while decoder.live_count:
            decoder.step()
        sizes.append((len(session._buffers.memory_cache), len(session._buffers.kv_cache)))  # type: ignore[attr-defined]
    assert sizes[4:] == [sizes[3]] * 2
    assert not decoder._rows
    assert len(decoder._free_rows) == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0: expected a whole number of at least 1"),
        ({"batch_size": 10**6}, "batch_size is 1000000: expected at most 65536"),
    ],
)
def test_a_wrong_decoder_is_refused(model: Model, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        Decoder(model, **wrong)


def test_wrong_options_are_refused_when_they_are_submitted(model: Model) -> None:
    decoder = Decoder(model)
    wrong: Any = {"n_best": 2}
    with pytest.raises(ValueError, match=r"^options is a dict: expected PredictOptions$"):
        decoder.submit("CCO", wrong)
    with pytest.raises(ValueError, match=r"^max_length is 9999: expected at most 256"):
        decoder.submit("CCO", PredictOptions(max_length=9999))
    assert decoder.live_count == 0


def test_threads_may_share_a_decoder(model: Model) -> None:
    decoder = Decoder(model, 8)
    together = Barrier(4)
    stop = Event()
    answered: dict[int, Result] = {}

    def work() -> None:
        while not stop.is_set() or decoder.live_count:
            answered.update(decoder.step())

    workers = [Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()

    def submit(seed: int) -> dict[int, Asked]:
        draw = random.Random(seed)
        together.wait()
        requests = [draw_request(draw) for _ in range(40)]
        return {decoder.submit(*each[:2], target=each[2]): each for each in requests}

    with ThreadPoolExecutor(4) as threads:
        asked = [pair for each in threads.map(submit, range(4)) for pair in each.items()]
    stop.set()
    for worker in workers:
        worker.join()
    assert sorted(answered) == sorted(ticket for ticket, _ in asked)
    known: dict[Asked, Result] = {}
    for ticket, request in asked:
        if request not in known:
            known[request] = alone(model, request)
        assert answered[ticket] == known[request]


def test_a_decoder_goes_in_and_out_of_inference_mode(model: Model) -> None:
    decoder = Decoder(model, 1)
    tickets = [decoder.submit(query) for query in ("CCO", "CCN", "CCC")]
    done: dict[int, Result] = {}
    inside = True
    while decoder.live_count:
        with torch.inference_mode(inside):
            done.update(decoder.step())
        inside = not inside
    assert [done[ticket] for ticket in tickets] == list(model.predict(["CCO", "CCN", "CCC"]))
