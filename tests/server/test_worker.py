import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from molspec import PredictOptions
from molspec.prediction.decoder import Decoder
from molspec.prediction.results import Result
from molspec.server.pending import PendingRequest, WithdrawnError
from molspec.server.worker import DEVICE_LOST, EngineError, Worker
from tests import tiny

SHORT = PredictOptions(max_length=12)
BEAM = PredictOptions(n_best=3, max_length=12)
SAMPLES = PredictOptions(samples=3, temperature=0.8, seed=7, max_length=12)
VALID = PredictOptions(n_best=2, drop_invalid=True, max_length=12)
MIXED = [SHORT, BEAM, SAMPLES, VALID]
QUERIES = [query for query in tiny.QUERIES if len(query) < 100]


def request(
    worker: Worker, queries: Sequence[str], options: PredictOptions = SHORT
) -> PendingRequest:
    return PendingRequest(queries, worker.model.decode_config(options))


@pytest.fixture
def worker() -> Iterator[Worker]:
    tiny_worker = Worker("tiny", tiny.model(), batch_size=4, most_waiting=100)
    yield tiny_worker
    tiny_worker.stop()


async def collect_results(pending: PendingRequest, seconds: float = 60) -> list[Result]:
    results = {index: result async for index, result in pending.answers(seconds)}
    return [results[index] for index in range(pending.count)]


async def ask(worker: Worker, *asked: Any) -> list[Result]:
    """The results of a request."""
    pending = request(worker, *asked)
    worker.submit(pending)
    return await collect_results(pending)


def test_concurrent_requests_get_the_results_of_predict(worker: Worker) -> None:
    draw = random.Random(1)
    requests = [
        (draw.sample(QUERIES, draw.randrange(1, 6)), options) for options in MIXED for _ in range(5)
    ]

    async def ask_all() -> list[list[Result]]:
        return await asyncio.gather(*(ask(worker, *each) for each in requests))

    for (queries, options), results in zip(requests, asyncio.run(ask_all()), strict=True):
        assert results == list(worker.model.predict_stream(queries, options))
    assert worker.unanswered_count == 0


def test_a_withdrawn_request_does_not_affect_others(worker: Worker) -> None:
    async def send() -> list[Result]:
        withdrawn, other = request(worker, ["C" * 20] * 90, BEAM), request(worker, ["CCO"])
        worker.submit(withdrawn)
        worker.submit(other)
        await anext(withdrawn.answers(60))
        worker.withdraw(withdrawn)
        with pytest.raises(WithdrawnError):
            await collect_results(withdrawn)
        return await collect_results(other)

    assert asyncio.run(send()) == worker.model.predict(["CCO"], max_length=12)
    assert worker.unanswered_count == 0


def test_options_that_the_decoder_refuses_fail_the_request(worker: Worker) -> None:
    async def send() -> None:
        pending = PendingRequest(["C", "CC"], tiny.config(SHORT))
        worker.submit(pending)
        with pytest.raises(ValueError, match=r"^options are of Identity\(weights='f00d'"):
            await collect_results(pending)
        assert (await ask(worker, ["CCO"]))[0].error is None

    asyncio.run(send())
    assert worker.unanswered_count == 0


def test_a_lost_device_ends_the_process() -> None:
    """After an illegal access every call of the process fails; only a new process can answer."""
    code = """
import asyncio, sys, torch
from molspec.prediction.decoder import Decoder
from molspec.prediction.options import PredictOptions
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
    pending = PendingRequest(["CCO"], model.decode_config(PredictOptions()))
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


def test_a_failed_engine_is_restarted(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Decoder) -> None:
        monkeypatch.undo()
        raise RuntimeError("the memory is full")

    monkeypatch.setattr(Decoder, "step", fail)

    async def send() -> list[Result]:
        with pytest.raises(EngineError):
            await ask(worker, ["CCO"] * 10)
        return await ask(worker, ["CCO"])

    assert asyncio.run(send()) == worker.model.predict(["CCO"], max_length=12)
    assert "the memory is full" in caplog.text


def test_a_query_that_cannot_be_submitted_frees_its_rows(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its queries fail at once, those in progress do not, later ones have the whole batch."""
    submit = Decoder.submit

    def fail(self: Decoder, query: str, *given: Any, **options: Any) -> int:
        if query == "CCO":
            raise MemoryError
        return submit(self, query, *given, **options)

    async def send() -> list[Result]:
        other = request(worker, ["C" * 20] * 9, BEAM)
        worker.submit(other)
        for _ in range(4):
            with monkeypatch.context() as patch:
                patch.setattr(Decoder, "submit", fail)
                with pytest.raises(EngineError):
                    await ask(worker, ["CCO"] * 3)
        return [*await collect_results(other), *await ask(worker, ["CCO"])]

    expected = [*worker.model.predict_stream(["C" * 20] * 9, BEAM)]
    assert asyncio.run(send()) == [*expected, *worker.model.predict(["CCO"], max_length=12)]
    assert (worker.unanswered_count, worker._scheduler.counted) == (0, 0)
