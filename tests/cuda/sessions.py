"""Sessions with a fake model: one whose search is the host's, one with rounds on the device."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molspec import drafting
from molspec._native import GuessModel
from molspec._native import SearchSpec as NativeSpec
from molspec.decoding import Scheduler, Source, SourceRequest, Statistics, Strategy
from molspec.engine.cuda.rounds import GraphExecutor
from molspec.engine.session import Session
from tests import tiny
from tests.cuda.emulator import Emulator
from tests.cuda.test_session import Recorder

SOURCES = [tiny.VOCABULARY.encode(query) for query in tiny.QUERIES[:9]] + [[]]
#: The fake model has no numbers for this source.
NAMELESS = 4


@cache
def guess_of(rewrites: bool) -> GuessModel:
    """Trained on what the queries copy, in order and shuffled."""
    draw = random.Random(1)
    shuffled = [draw.sample(source, len(source)) for source in SOURCES[:-1]]
    pairs = [*zip(SOURCES[:-1], SOURCES[:-1], strict=True), *zip(SOURCES, shuffled, strict=False)]
    ngram = drafting.build_ngram(tiny.VOCABULARY, pairs, min_gain=0.0, rewrites=rewrites)
    return drafting.guess_model(tiny.VOCABULARY, ngram)


class FakeModel(Session):
    """Log-probs that depend on source and path alone: mostly copies, with ties."""

    #: Of all paths: behind so many the model has no numbers.
    is_non_finite = 0.0

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
            if self._has_numbers(self._indices[row], path):
                log_probs[i] = self._log_probs(self._indices[row], path)

    def _has_numbers(self, index: int, path: tuple[int, ...]) -> bool:
        if index == NAMELESS and len(path) > 2:
            return False
        return random.Random(str(path)).random() >= self.is_non_finite

    def _log_probs(self, index: int, path: tuple[int, ...]) -> Tensor:
        draw = random.Random(str((index, path)))
        logits = [draw.randrange(12) / 4 for _ in tiny.TOKENS]
        source = SOURCES[index]
        place = len(path) - 1 + index % 3
        if draw.random() < 0.85:
            logits[source[place] if place < len(source) else tiny.VOCABULARY.eos_id] = 2.75
        if draw.random() < 0.1:
            logits[draw.randrange(len(logits))] = -math.inf
        return torch.tensor(logits).log_softmax(-1)


class HostSession(FakeModel):
    """A session whose search is the host's."""

    def step(self, nodes: np.ndarray, path_slots: np.ndarray, block_count: int) -> np.ndarray:
        del block_count
        log_probs = torch.empty(len(nodes), len(tiny.TOKENS))
        self.write(torch.from_numpy(nodes), torch.from_numpy(path_slots), log_probs)
        return log_probs.numpy()


class DeviceSession(FakeModel):
    """A session that runs rounds on the emulated device, with the fake model's decoder."""

    spec = tiny.SPEC
    device = torch.device("cpu")

    def __init__(
        self, cuda: Emulator, rows: int, kind: type[GraphExecutor[Any]], ahead: int
    ) -> None:
        super().__init__(rows)
        self.library = cuda.ops
        self.graphs = Recorder()
        self.query_count = rows
        self._kind, self._ahead = kind, ahead
        self._rounds: GraphExecutor[Any] | None = None

    def executor(self, spec: NativeSpec, guess: GuessModel) -> GraphExecutor[Any]:
        if self._rounds is None:
            self._rounds = self._kind(self, spec, guess, self._ahead)  # type: ignore[arg-type]
        assert self._rounds.spec is spec
        return self._rounds

    def on_stream(self) -> AbstractContextManager[object]:
        return nullcontext()

    def cache(self, blocks: int) -> Tensor:
        return torch.zeros(blocks)

    def step_size(self, node_count: int) -> int:
        return node_count + 3  # some gaps

    def reserve(self, rows: int) -> bool:
        return rows < 0

    def send(self, values: Tensor) -> Tensor:
        return values

    def launch(self, nodes: Tensor, path_slots: Tensor, kv: Tensor, log_probs: Tensor) -> None:
        assert int(path_slots.max()) < 16 * len(kv)
        self.write(nodes, path_slots, log_probs)


class Calls:
    """The operators; of every call of the one named, what it was given and what it left."""

    def __init__(self, cuda: Emulator, name: str) -> None:
        self._cuda, self._name = cuda, name
        self._calls: list[tuple[Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        operator = getattr(self._cuda.ops, name)
        if name != self._name:
            return operator

        def recorded(*arguments: Any) -> None:
            before = copy.deepcopy(arguments)
            operator(*arguments)
            self._calls.append((before, copy.deepcopy(arguments)))

        return recorded

    def go_wrong(self, skipped_barrier: int = -1) -> bool:
        """Whether a call leaves something else with its threads in another order."""
        return any(
            self._goes_wrong(seed, *call, skipped_barrier) for seed, call in enumerate(self._calls)
        )

    def _goes_wrong(self, seed: int, before: Any, after: Any, skipped_barrier: int) -> bool:
        self._cuda.set(seed, skipped_barrier)
        found = copy.deepcopy(before)
        try:
            getattr(self._cuda.ops, self._name)(*found)
        except RuntimeError:  # a barrier that not every thread reached
            return True
        return any(
            not torch.equal(left.view(torch.uint8), right.view(torch.uint8))  # NaN is equal
            for left, right in zip(tensors(found), tensors(after), strict=True)
        )


def tensors(arguments: Any) -> list[Tensor]:
    """Tensors among arguments, and in their lists."""
    if isinstance(arguments, Tensor):
        return [arguments]
    if not isinstance(arguments, list | tuple):
        return []
    return [tensor for each in arguments for tensor in tensors(each)]


#: Everything that a search tells of a query.
Found = tuple[list[tuple[list[int], float, bool]], list[int], str]


def run(
    session: HostSession | DeviceSession,
    spec: NativeSpec,
    batch_size: int,
    rewrites: bool = False,
) -> tuple[dict[int, Found], Statistics]:
    """What is found by query, and the sums."""
    scheduler = Scheduler(session, guess_of(rewrites), batch_size)
    strategy = Strategy(spec)
    indices = {
        scheduler.add(SourceRequest(Source(ids, [i]), strategy)): i for i, ids in enumerate(SOURCES)
    }
    found = {}
    names = ("steps", "nodes", "drafted_tokens", "accepted_tokens", "emitted_tokens")
    while scheduler.live_count:
        for ticket, decoded in scheduler.step():
            found[indices[ticket]] = (
                [(h.token_ids, h.log_prob, h.finished) for h in decoded.hypotheses],
                [getattr(decoded.statistics, name) for name in names],
                decoded.error,
            )
    return found, scheduler.statistics
