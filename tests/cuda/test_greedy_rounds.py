"""Rounds that stay on the device, run as host code, against the host's own search: to the bit."""

from __future__ import annotations

import inspect
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from molspec import drafting, ops
from molspec._native import GreedySearch
from molspec.decoding import Source, Statistics, decode
from molspec.drafting import Drafting, NoDraft, WindowDrafts
from molspec.engine.greedy import GreedyRounds
from tests import tiny
from tests.cuda.emulator import Emulator
from tests.cuda.test_session import Recorder

DRAFTERS: tuple[Drafting, ...] = (
    NoDraft(),
    WindowDrafts(draft_length=4, draft_count=6),
    WindowDrafts(draft_length=1, draft_count=1, choice="first"),
    WindowDrafts(draft_length=3, draft_count=40, choice="first", dilution=True),
    WindowDrafts(draft_length=5, draft_count=3, smart=True),
)
SOURCES = [tiny.VOCABULARY.encode(query) for query in tiny.QUERIES[:9]] + [[]]
#: The fake model has no numbers for this source.
NAMELESS = 4


class FakeModel:
    """Log-probs that depend on source and path alone: mostly copies, with ties."""

    def __init__(self, rows: int) -> None:
        self._indices = [0] * rows
        self._token_of_slot: dict[int, int] = {}

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        for row, (index,) in zip(rows, sources, strict=True):
            self._indices[row] = index

    def release(self, row: int) -> None:
        pass

    def write(self, nodes: Tensor, path_slots: Tensor, log_probs: Tensor) -> None:
        for i, (token_id, position, begin, row) in enumerate(nodes.tolist()):
            log_probs[i] = torch.nan
            if row < 0:
                continue
            slots = path_slots[begin : begin + position + 1].tolist()
            self._token_of_slot[slots[-1]] = token_id
            path = tuple(self._token_of_slot[slot] for slot in slots)
            if self._indices[row] != NAMELESS or position < 2:
                log_probs[i] = self._log_probs(self._indices[row], path)

    def _log_probs(self, index: int, path: tuple[int, ...]) -> Tensor:
        draw = random.Random(str((index, path)))
        logits = [draw.randrange(12) / 4 for _ in tiny.TOKENS]
        source = SOURCES[index]
        place = len(path) - 1 + index % 3
        if draw.random() < 0.85:
            logits[source[place] if place < len(source) else tiny.VOCABULARY.eos_id] = 2.75
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

    def __init__(self, cuda: Emulator, rows: int, rounds_ahead: int) -> None:
        super().__init__(rows)
        self.library = cuda.ops
        self.graphs = Recorder()
        self.query_count = rows
        self._rounds_ahead = rounds_ahead

    def rounds(self, search: GreedySearch) -> GreedyRounds:
        return GreedyRounds(self, search, self._rounds_ahead)  # type: ignore[arg-type]

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


def run(
    session: HostSession | DeviceSession, drafter: Drafting, batch_size: int, max_length: int
) -> tuple[dict[int, object], Statistics]:
    """Everything that a search tells of each query, and the sums."""
    guess = drafting.guess_model(tiny.VOCABULARY, None)
    search = GreedySearch(drafting.factory(drafter, guess), batch_size, max_length)
    sources = [Source(index, ids, [index]) for index, ids in enumerate(SOURCES)]
    statistics = Statistics()
    found = {}
    names = ("steps", "nodes", "drafted_tokens", "accepted_tokens", "emitted_tokens")
    for index, decoded in decode(session, search, sources, batch_size, statistics):  # type: ignore[arg-type]
        found[index] = (
            [(h.token_ids, h.log_prob, h.finished) for h in decoded.hypotheses],
            [getattr(decoded.statistics, name) for name in names],
            decoded.error,
        )
    return found, statistics


@pytest.mark.parametrize("max_length", [1, 2, 11, 24])
@pytest.mark.parametrize("drafter", DRAFTERS, ids=str)
def test_rounds_on_the_device_are_the_host_s(
    cuda: Emulator, drafter: Drafting, max_length: int
) -> None:
    expected, host = run(HostSession(4), drafter, 4, max_length)
    assert any(error for _, _, error in expected.values()) == (max_length > 2)  # type: ignore[misc]
    for batch_size, rounds_ahead in ((4, 1), (1, 2), (3, 2), (16, 5)):
        cuda.set(seed=batch_size)
        session = DeviceSession(cuda, batch_size, rounds_ahead)
        found, device = run(session, drafter, batch_size, max_length)
        assert found == expected
        assert device.nodes == host.nodes
        assert device.query_calls == host.query_calls
        if batch_size == 4:  # the host looks after every round: the rounds are the host's
            assert device.decoder_calls == host.decoder_calls
    if drafter == DRAFTERS[1] and max_length > 2:
        assert host.accepted_tokens > 0


@pytest.mark.parametrize("name", ["propose_windows", "stage_nodes", "verify_nodes"])
def test_operators_have_typed_functions(cuda: Emulator, name: str) -> None:
    schema = getattr(cuda.ops, name).default._schema
    names = list(inspect.signature(getattr(ops, name)).parameters)
    assert names == [argument.name for argument in schema.arguments]


def test_another_vocabulary_is_refused(cuda: Emulator) -> None:
    session = DeviceSession(cuda, 1, 1)
    session.spec = tiny.ModelSpec(20, 20, d_model=32, head_count=2)
    guess = drafting.guess_model(tiny.VOCABULARY, None)
    search = GreedySearch(drafting.factory(NoDraft(), guess), 1, 5)
    with pytest.raises(ValueError, match="the drafters know 13 tokens: expected the model's 20"):
        session.rounds(search)


def state(rows: int, capacity: int, limit: int) -> tuple[Tensor, Tensor, Tensor]:
    """Answers of free rows, slots and drafts."""
    answers = torch.zeros(rows, 48 + 4 * capacity, dtype=torch.uint8)
    slots = torch.arange(rows * 64, dtype=torch.int32).view(rows, 64)
    return answers, slots, torch.zeros(rows, 1 + 2 * limit, dtype=torch.int32)


def begin(answers: Tensor, row: int, token_count: int, max_length: int) -> None:
    head = answers[row, :48].view(torch.int32)
    head[2], head[4], head[11] = 1, token_count, max_length
    answers[row, 48 : 48 + 4 * token_count].view(torch.int32)[:] = 7


@pytest.mark.parametrize("seed", [1, 2])
def test_what_finds_no_room_waits(cuda: Emulator, seed: int) -> None:
    cuda.set(seed=seed)
    answers, slots, drafts = state(4, 6, 2)
    for row in (0, 2, 3):
        begin(answers, row, token_count=row, max_length=6)
        drafts[row] = torch.tensor([2, 5, 6, -1, 0])  # a chain of two
    nodes = torch.full((7, 4), 99, dtype=torch.int32)
    path_slots = torch.full((42,), -9, dtype=torch.int32)
    cuda.ops.stage_nodes(answers, slots, drafts, nodes, path_slots, 1)
    gap = [0, 0, 0, -1]
    assert nodes.tolist() == [
        *([1, 0, 0, 0], [5, 1, 6, 0], [6, 2, 12, 0]),
        *([7, 2, 18, 2], [5, 3, 24, 2], [6, 4, 30, 2]),
        gap,
    ]
    assert path_slots[30:35].tolist() == slots[2, :5].tolist()
    first_nodes = answers[:, 40:44].contiguous().view(torch.int32).flatten()
    assert first_nodes.tolist() == [0, -1, 3, -1]
    cuda.ops.verify_nodes(answers, slots, drafts, torch.zeros(7, 9), 8)
    steps = answers[:, 20:24].contiguous().view(torch.int32).flatten()
    assert steps.tolist() == [1, 0, 1, 0]


def test_a_draft_behind_which_nothing_may_follow_is_a_gap(cuda: Emulator) -> None:
    answers, slots, drafts = state(1, 6, 2)
    begin(answers, 0, token_count=4, max_length=6)
    drafts[0] = torch.tensor([2, 5, 6, -1, 0])
    nodes = torch.empty(3, 4, dtype=torch.int32)
    cuda.ops.stage_nodes(answers, slots, drafts, nodes, torch.zeros(18, dtype=torch.int32), 1)
    assert nodes[:, 3].tolist() == [0, 0, -1]


@pytest.mark.parametrize("barrier", [0, 1])
def test_staging_needs_each_of_its_barriers(cuda: Emulator, barrier: int) -> None:
    def staged() -> Tensor:
        answers, slots, drafts = state(40, 2, 0)
        for row in range(40):
            begin(answers, row, token_count=0, max_length=2)
        nodes = torch.zeros(40, 4, dtype=torch.int32)
        path_slots = torch.zeros(80, dtype=torch.int32)
        cuda.ops.stage_nodes(answers, slots, drafts, nodes, path_slots, 1)
        return nodes

    expected = staged()
    assert expected[:, 3].tolist() == list(range(40))

    def goes_wrong(seed: int) -> bool:
        cuda.set(seed, skipped_barrier=barrier)
        return not torch.equal(staged(), expected)

    assert any(goes_wrong(seed) for seed in range(4))


def test_wrong_shapes_are_refused(cuda: Emulator) -> None:
    answers, slots, drafts = state(2, 6, 2)
    nodes, paths = torch.zeros(4, 4, dtype=torch.int32), torch.zeros(24, dtype=torch.int32)
    stage = cuda.ops.stage_nodes
    with pytest.raises(RuntimeError, match="answers has rows of 51 bytes: expected a multiple"):
        stage(answers[:, :51].contiguous(), slots, drafts, nodes, paths, 1)
    with pytest.raises(RuntimeError, match=r"slots has shape \[2, 8\]: expected \[2, at least 9"):
        stage(answers, slots[:, :8].contiguous(), drafts, nodes, paths, 1)
    with pytest.raises(RuntimeError, match="path_slots has 23 entries: expected at least 24"):
        stage(answers, slots, drafts, nodes, paths[:23], 1)
    with pytest.raises(RuntimeError, match=r"drafts has shape \[1, 5\]: expected \[2"):
        cuda.ops.verify_nodes(answers, slots, drafts[:1], torch.zeros(4, 9), 2)
    with pytest.raises(RuntimeError, match=r"trees has shape \[1, 4\]: expected a row a query, 2"):
        cuda.ops.propose_windows(answers, drafts, torch.zeros(1, 4, dtype=torch.int32), 1)


def test_trees_that_lie_outside_of_their_row_are_none(cuda: Emulator) -> None:
    answers, _, drafts = state(1, 6, 2)
    begin(answers, 0, token_count=0, max_length=6)
    for first, count in ((0, 3), (1, 2), (-1, 1), (0, 9)):
        drafts[0, 0] = 1
        trees = torch.tensor([[1, -1, first, count, 4, -1, 4, 0]], dtype=torch.int32)
        cuda.ops.propose_windows(answers, drafts, trees, 1)
        assert drafts[0, 0] == 0
