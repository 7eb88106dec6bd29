from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest

from molspec import PredictOptions
from molspec.decoder import Decoder
from molspec.results import Result
from molspec.server.pending import PendingRequest, WithdrawnError
from molspec.server.worker import DEVICE_LOST, BusyError, EngineError, StoppedError, Worker
from tests import tiny

SHORT = PredictOptions(max_length=12)
BEAM = PredictOptions(n_best=3, max_length=12)
SAMPLES = PredictOptions(samples=3, temperature=0.8, seed=7, max_length=12)
DIFFERENT_SAMPLES = PredictOptions(samples=3, replacement=False, max_length=12)
VALID = PredictOptions(n_best=2, drop_invalid=True, max_length=12)
MIXED = [SHORT, BEAM, SAMPLES, DIFFERENT_SAMPLES, VALID]
QUERIES = [query for query in tiny.QUERIES if len(query) < 100]


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker("tiny", tiny.model(), batch_size=4, most_waiting=100)
    yield made
    made.stop()


async def answered(pending: PendingRequest, seconds: float = 60) -> list[Result]:
    found = {index: result async for index, result in pending.answers(seconds)}
    return [found[index] for index in range(pending.count)]


def test_requests_of_many_are_answered_as_predict_answers(worker: Worker) -> None:
    draw = random.Random(1)
    asked = [
        (draw.sample(QUERIES, draw.randrange(1, 6)), options) for options in MIXED for _ in range(5)
    ]

    async def ask(queries: list[str], options: PredictOptions) -> list[Result]:
        pending = PendingRequest(queries, options)
        worker.submit(pending)
        return await answered(pending)

    async def ask_all() -> list[list[Result]]:
        return await asyncio.gather(*(ask(*each) for each in asked))

    for (queries, options), results in zip(asked, asyncio.run(ask_all()), strict=True):
        assert results == list(worker.model.predict_stream(queries, options))
    assert worker.unanswered_count == 0


def test_targets_are_scored(worker: Worker) -> None:
    async def ask() -> list[Result]:
        pending = PendingRequest(["CCO", "C("], SHORT, ["CC", "C"])
        worker.submit(pending)
        return await answered(pending)

    assert asyncio.run(ask()) == worker.model.log_probs(["CCO", "C("], ["CC", "C"])


def test_what_is_withdrawn_leaves_and_the_others_stay(worker: Worker) -> None:
    async def ask() -> list[Result]:
        gone, stays = PendingRequest(["C" * 20] * 90, BEAM), PendingRequest(["CCO"], SHORT)
        worker.submit(gone)
        worker.submit(stays)
        await anext(gone.answers(60))
        worker.withdraw(gone)
        with pytest.raises(WithdrawnError):
            await answered(gone)
        return await answered(stays)

    assert asyncio.run(ask()) == worker.model.predict(["CCO"], max_length=12)
    assert worker.unanswered_count == 0


def test_more_than_may_wait_is_sent_away(worker: Worker) -> None:
    async def ask() -> None:
        first, second = PendingRequest(["CCO"] * 90, BEAM), PendingRequest(["CCO"] * 90, BEAM)
        worker.submit(first)
        with pytest.raises(BusyError) as refused:
            worker.submit(second)
        assert 1 <= refused.value.retry_after <= 60
        await answered(first)
        worker.submit(second)
        await answered(second)

    asyncio.run(ask())


def test_what_is_not_answered_in_time_is_an_error_of_its_query(worker: Worker) -> None:
    async def ask() -> list[Result]:
        pending = PendingRequest(["C" * 40] * 50, PredictOptions(n_best=20, max_length=200))
        worker.submit(pending)
        results = await answered(pending, 0.05)
        worker.withdraw(pending)
        return results

    results = asyncio.run(ask())
    assert len(results) == 50
    assert results[-1].error == "not answered within 0.05 s"


def test_a_worker_that_stops_answers_what_it_accepted() -> None:
    worker = Worker("tiny", tiny.model(), batch_size=4)

    async def ask() -> list[Result]:
        pending = PendingRequest(QUERIES, BEAM)
        worker.submit(pending)
        await asyncio.to_thread(worker.stop)
        with pytest.raises(StoppedError):
            worker.submit(PendingRequest(["C"], SHORT))
        return await answered(pending)

    assert asyncio.run(ask()) == list(worker.model.predict_stream(QUERIES, BEAM))
    assert not worker.is_alive


def test_options_that_a_decoder_refuses_are_the_requests_error(worker: Worker) -> None:
    async def ask() -> None:
        pending = PendingRequest(["C", "CC"], PredictOptions(max_length=100_000))
        worker.submit(pending)
        with pytest.raises(ValueError, match="max_length is 100000"):
            await answered(pending)
        after = PendingRequest(["CCO"], SHORT)
        worker.submit(after)
        assert (await answered(after))[0].error is None

    asyncio.run(ask())
    assert worker.unanswered_count == 0


def test_a_lost_device_ends_the_process() -> None:
    """After an illegal access every call of the process fails, so only a new one can answer."""
    code = """
import asyncio, sys, torch
from molspec.decoder import Decoder
from molspec.options import PredictOptions
from molspec.server.pending import PendingRequest
from molspec.server.worker import Worker
from tests import tiny

def fail(*_):
    raise RuntimeError("CUDA error: an illegal memory access was encountered\\nhelp")

torch.cuda.synchronize = Decoder.step = fail
model = tiny.model()
worker = Worker("tiny", model)
model.device = sys.argv[1]  # nothing to capture there at its start

async def ask():
    pending = PendingRequest(["CCO"], PredictOptions())
    worker.submit(pending)
    [result async for result in pending.answers(60)]

try:
    asyncio.run(ask())
finally:
    worker.stop()  # a thread that still runs when Python ends may abort the process
"""
    command = [sys.executable, "-c", code]
    lost = subprocess.run([*command, "cuda"], capture_output=True, text=True)
    assert lost.returncode == DEVICE_LOST
    assert lost.stderr.splitlines() == [
        "the device cuda is lost: CUDA error: an illegal memory access was encountered; start again"
    ]
    other = subprocess.run([*command, "cpu"], capture_output=True, text=True)
    assert (other.returncode, "EngineError" in other.stderr) == (1, True)


def test_an_engine_that_fails_begins_anew(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Decoder) -> None:
        monkeypatch.undo()
        raise RuntimeError("the memory is full")

    monkeypatch.setattr(Decoder, "step", fail)

    async def ask() -> list[Result]:
        pending = PendingRequest(["CCO"] * 10, SHORT)
        worker.submit(pending)
        with pytest.raises(EngineError):
            await answered(pending)
        again = PendingRequest(["CCO"], SHORT)
        worker.submit(again)
        return await answered(again)

    assert asyncio.run(ask()) == worker.model.predict(["CCO"], max_length=12)
    assert "the memory is full" in caplog.text
