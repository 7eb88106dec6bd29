"""Sessions with a fake model: one runs rounds on the host, one on the emulated device."""

import ctypes
import math
import random
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from molspec import drafting
from molspec._native import GuessModel, SearchSpec as NativeSpec
from molspec.decoding import Scheduler, Source, Statistics, Strategy
from molspec.decoding.scheduler import source_request
from molspec.engine import devices, ops
from molspec.engine.cuda import caches, engine, graphs, outbox
from molspec.engine.cuda.executor import GraphExecutor
from molspec.engine.cuda.session import CudaSession
from molspec.engine.packing import pack
from molspec.engine.session import Session
from tests import tiny
from tests.cuda.emulator import Emulator

SOURCES = [tiny.VOCABULARY.encode(query) for query in tiny.QUERIES[:9]] + [[]]
#: Index of the source for which the fake model gives NaN after two tokens.
NAN_SOURCE = 4


@cache
def train_guess(rewrites: bool) -> GuessModel:
    """Train a guess model on copies of the queries, in order and shuffled."""
    draw = random.Random(1)
    shuffled = [draw.sample(source, len(source)) for source in SOURCES[:-1]]
    pairs = [*zip(SOURCES[:-1], SOURCES[:-1], strict=True), *zip(SOURCES, shuffled, strict=False)]
    ngram = drafting.build_ngram(tiny.VOCABULARY, pairs, min_gain=0.0, rewrites=rewrites)
    return drafting.guess_model(tiny.VOCABULARY, ngram)


class FakeModel(Session):
    """A model whose log-probs depend only on source and path: mostly copies, with ties."""

    #: Share of paths after which the model gives NaN.
    nan_share = 0.0

    def __init__(self, rows: int) -> None:
        self._indices = [0] * rows
        self._token_of_slot: dict[int, int] = {}

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        for row, (index,) in zip(rows, sources, strict=True):
            self._indices[row] = index

    def release(self, row: int) -> None:
        pass

    def step(self, nodes: np.ndarray, path_slots: np.ndarray, block_count: int) -> np.ndarray:
        raise AssertionError("expected rounds on the device")

    def write(self, nodes: Tensor, path_slots: Tensor, log_probs: Tensor) -> None:
        for i, (token_id, position, begin, row) in enumerate(nodes.tolist()):
            log_probs[i] = torch.nan
            if row < 0:
                continue
            slots = path_slots[begin : begin + position + 1].tolist()
            self._token_of_slot[slots[-1]] = token_id
            path = tuple(self._token_of_slot[slot] for slot in slots)
            if self._has_log_probs(self._indices[row], path):
                log_probs[i] = self._log_probs(self._indices[row], path)

    def _has_log_probs(self, index: int, path: tuple[int, ...]) -> bool:
        if index == NAN_SOURCE and len(path) > 2:
            return False
        return random.Random(str(path)).random() >= self.nan_share

    def _log_probs(self, index: int, path: tuple[int, ...]) -> Tensor:
        draw = random.Random(str((index, path)))
        logits = [draw.randrange(12) / 4 for _ in tiny.TOKENS]
        source = SOURCES[index]
        position = len(path) - 1 + index % 3
        if draw.random() < 0.85:
            logits[source[position] if position < len(source) else tiny.VOCABULARY.eos_id] = 2.75
        if draw.random() < 0.1:
            logits[draw.randrange(len(logits))] = -math.inf
        return torch.tensor(logits).log_softmax(-1)


class HostSession(FakeModel):
    """A session whose rounds run on the host."""

    def step(self, nodes: np.ndarray, path_slots: np.ndarray, block_count: int) -> np.ndarray:
        del block_count
        log_probs = torch.empty(len(nodes), len(tiny.TOKENS))
        self.write(torch.from_numpy(nodes), torch.from_numpy(path_slots), log_probs)
        return log_probs.numpy()


class Recorder(graphs.Graphs):
    """Runs work at once, without graphs. Records the sizes of graphs of steps and rounds, the
    lengths of encoder graphs, and the number of marks that are not yet waited for.
    """

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.sizes: list[Hashable] = []
        self.encoded: list[int] = []
        self.unwaited_count = 0
        self._callbacks: list[Callable[[], None]] = []

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        if isinstance(key, tuple) and key[0] == "encode":
            self.encoded.append(key[1])
        else:
            self.sizes.append(key)
        work()

    def handle(self, key: Hashable, work: Callable[[], None]) -> int:
        run = ctypes.CFUNCTYPE(None)(lambda: self.run(key, work))
        self._callbacks.append(run)
        address = ctypes.cast(run, ctypes.c_void_p).value
        assert address is not None
        return address

    def mark(self) -> Callable[[], None]:
        self.unwaited_count += 1
        return self._wait

    def _wait(self) -> None:
        self.unwaited_count -= 1


class DeviceSession(FakeModel):
    """A session that runs rounds on the emulated device, with the fake model's decoder."""

    spec = tiny.SPEC
    device = torch.device("cpu")

    def __init__(
        self, cuda: Emulator, rows: int, executor_type: type[GraphExecutor[Any]], rounds_ahead: int
    ) -> None:
        super().__init__(rows)
        self.library = cuda.ops
        self.graphs = Recorder()
        self.outbox = outbox.Outbox(self.device)
        self.query_count = rows
        self._executor_type, self._ahead = executor_type, rounds_ahead
        self._executor: GraphExecutor[Any] | None = None

    def executor(self, strategy: Strategy, source: Source, guess: GuessModel) -> GraphExecutor[Any]:
        assert not source.prefix
        spec = strategy.search
        if self._executor is None:
            session: Any = self
            sizes = self._executor_type.sizes_of(spec, guess, session)
            assert sizes is not None
            self._executor = self._executor_type(session, spec, guess, sizes, self._ahead)
        assert self._executor.spec == spec
        return self._executor

    def on_stream(self) -> AbstractContextManager[object]:
        return nullcontext()

    def cache(self, blocks: int) -> Tensor:
        return torch.zeros(blocks)

    def step_size(self, node_count: int) -> int:
        return node_count + 3  # some gaps

    def reserve(self, rows: int) -> bool:
        return rows < 0

    def launch(self, nodes: Tensor, path_slots: Tensor, kv: Tensor, log_probs: Tensor) -> None:
        assert int(path_slots.max()) < 16 * len(kv)
        self.write(nodes, path_slots, log_probs)


#: All that a search reports of a query: hypotheses, counts and error.
Outcome = tuple[list[tuple[list[int], float, bool]], list[int], str]


def run(
    session: HostSession | DeviceSession, spec: NativeSpec, batch_size: int
) -> tuple[dict[int, Outcome], Statistics]:
    """Decode all sources. Return the outcomes by source index, and the total statistics."""
    scheduler = Scheduler(session, train_guess(False), batch_size)
    strategy = Strategy(spec)
    indices = {
        scheduler.add(source_request(Source(ids, [i]), strategy)): i
        for i, ids in enumerate(SOURCES)
    }
    outcomes = {}
    count_names = ("steps", "nodes", "drafted_tokens", "accepted_tokens", "emitted_tokens")
    while scheduler.live_count:
        for ticket, decoded in scheduler.step():
            outcomes[indices[ticket]] = (
                [(h.token_ids, h.log_prob, h.finished) for h in decoded.hypotheses],
                [getattr(decoded.statistics, name) for name in count_names],
                decoded.error,
            )
    return outcomes, scheduler.statistics


def check_rounds(
    cuda: Emulator,
    executor: type[GraphExecutor[Any]],
    spec: NativeSpec,
    batches: Sequence[tuple[int, int]] = ((4, 1), (1, 2), (3, 2), (16, 5)),
) -> Statistics:
    """Rounds on the device equal those on the host to the bit; return the host's statistics.

    batches: their sizes, and the rounds that are queued in advance.
    """
    expected, host = run(HostSession(4), spec, 4)
    assert any(error for _, _, error in expected.values()) == (spec.max_length > 2)
    for batch_size, rounds_ahead in batches:
        cuda.set(seed=batch_size)
        session = DeviceSession(cuda, batch_size, executor, rounds_ahead)
        outcomes, device = run(session, spec, batch_size)
        assert outcomes == expected
        assert device.nodes == host.nodes
        assert device.query_calls == host.query_calls
        if batch_size == 4:  # the host reads every round: the rounds are equal
            assert device.decoder_calls == host.decoder_calls
    return host


def stand_in_cuda(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Let torch and the operators tell of a usable device, but for changes: values or functions."""
    found: dict[str, Any] = {"is_available": True, "is_initialized": False, "device_count": 1}
    found |= {"get_device_capability": (9, 0), "has_cuda": True, "cuda_versions": (13000, 13000)}
    for name, value in (found | changes).items():
        module = ops if hasattr(ops, name) else torch.cuda
        if name in found:
            stand_in = value if callable(value) else lambda *_, value=value: value
            monkeypatch.setattr(module, name, stand_in)
    monkeypatch.setattr(torch.version, "cuda", changes.get("version", "13.0"))
    # What it finds of these stand-ins is not stored for the tests that follow.
    monkeypatch.setattr(devices, "cuda_fault", cache(devices.cuda_fault.__wrapped__))


class EmulatedEngine(engine.CudaEngine):
    """CudaEngine on the emulated machine."""

    def __init__(
        self, cuda: Emulator, dtype: torch.dtype, rounds_on_device: bool = True, seed: int = 1
    ) -> None:
        checkpoint = tiny.checkpoint(seed)
        self.spec = checkpoint.spec
        self.packed = pack(checkpoint.spec, checkpoint.weights, dtype)
        self._cuda = cuda
        self._rounds_on_device = rounds_on_device
        self.graphs = Recorder()
        self._idle = []
        self.session_count = 0

    def session(self, query_count: int) -> CudaSession:
        session = super().session(query_count)
        if not self._rounds_on_device:
            vars(session)["executor"] = lambda *_: None
        return session

    def _make(self, query_count: int) -> caches.Caches:
        self.session_count += 1
        return caches.Caches(self.packed, query_count, self._cuda.ops, self.graphs)


def field(answers: Tensor, index: int) -> list[int]:
    """One field of the heads of all queries."""
    return answers[:, 4 * index : 4 * index + 4].contiguous().view(torch.int32).flatten().tolist()
