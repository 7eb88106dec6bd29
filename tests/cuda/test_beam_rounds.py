"""Beam search that stays on the device, run as host code, against the host's own: to the bit."""

from __future__ import annotations

import copy
import inspect
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from molspec import drafting, ops, reference
from molspec._native import BeamOptions, BeamSearch
from molspec.engine.beams import BeamRounds
from tests import tiny
from tests.cuda.emulator import Emulator
from tests.cuda.sessions import DeviceSession, HostSession, run


@dataclass(frozen=True)
class Case:
    beam_size: int
    n_best: int
    max_length: int
    length_penalty: float = 0.0
    finished_apart: bool = False

    def search(self, query_count: int) -> BeamSearch:
        options = BeamOptions(**vars(self), lookahead_steps=0, node_budget=0, min_confidence=1.0)
        return BeamSearch(options, drafting.guess_model(tiny.VOCABULARY, None), query_count)


CASES = (
    Case(1, 1, 9),
    Case(2, 2, 1),
    Case(3, 3, 2, 1.0),
    Case(5, 5, 24),
    Case(5, 3, 11, 0.7),
    Case(20, 20, 6),  # wider than the vocabulary
    Case(64, 10, 3, 2.0),
)
APART = tuple(Case(**{**vars(case), "finished_apart": True}) for case in CASES)


@pytest.mark.parametrize("case", CASES + APART, ids=str)
def test_rounds_on_the_device_are_the_host_s(cuda: Emulator, case: Case) -> None:
    expected, host = run(HostSession(4), case.search(4), 4)
    assert any(error for _, _, error in expected.values()) == (case.max_length > 2)
    for batch_size, ahead in ((4, 1), (1, 2), (3, 2), (16, 5)):
        cuda.set(seed=batch_size)
        session = DeviceSession(cuda, batch_size, BeamRounds, ahead)
        found, device = run(session, case.search(batch_size), batch_size)
        assert found == expected
        assert device.nodes == host.nodes
        assert device.query_calls == host.query_calls
        if batch_size == 4:  # the host looks after every round: the rounds are the host's
            assert device.decoder_calls == host.decoder_calls


def test_the_cases_tell_searches_apart() -> None:
    cases = [Case(5, 5, 24, penalty, apart) for penalty in (0.0, 0.7) for apart in (False, True)]
    found = [run(HostSession(4), case.search(4), 4)[0] for case in cases]
    lists = {str([item[index][0] for index in range(10)]) for item in found}
    assert len(lists) == len(cases)


@pytest.mark.parametrize("name", ["stage_beams", "rank_tokens", "select_beams"])
def test_operators_have_typed_functions(cuda: Emulator, name: str) -> None:
    schema = getattr(cuda.ops, name).default._schema
    names = list(inspect.signature(getattr(ops, name)).parameters)
    assert names == [argument.name for argument in schema.arguments]


def ranked(library: object, nodes: Tensor, log_probs: Tensor, count: int) -> list[Tensor]:
    best = [torch.full((len(nodes) + 2, count), -9, dtype=torch.int32), torch.zeros(0)]
    best[1] = torch.full(best[0].shape, -9.0)
    library.rank_tokens(nodes, log_probs, *best)  # type: ignore[attr-defined]
    return best


@pytest.mark.parametrize("vocab", [1, 3, 32, 77])
@pytest.mark.parametrize("count", [1, 5, 40])
def test_rank_tokens_equals_reference(cuda: Emulator, vocab: int, count: int) -> None:
    generator = torch.Generator().manual_seed(vocab)
    log_probs = -torch.randint(0, 9, (11, vocab), generator=generator).float()  # many ties
    log_probs[torch.rand(11, vocab, generator=generator) < 0.1] = -torch.inf
    log_probs[2, 0] = torch.nan
    log_probs[3, vocab // 2] = torch.nan
    log_probs[4] = torch.nan
    log_probs[5] = -torch.inf
    nodes = torch.zeros(11, 4, dtype=torch.int32)
    nodes[7, 3] = -1
    ours, theirs = (ranked(library, nodes, log_probs, count) for library in (cuda.ops, reference))
    present = [row for row in range(11) if row != 7]
    for mine, twin in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine[present], twin[present], atol=0, rtol=0, equal_nan=True)
        assert (mine[[7, 11, 12]] == -9).all()


def state(rows: int, beam_size: int, capacity: int) -> tuple[Tensor, Tensor]:
    """Answers of queries that begin, and their paths."""
    answers = torch.zeros(rows, 40 + beam_size * (24 + 4 * capacity), dtype=torch.uint8)
    head = torch.tensor([1, 1, 0, 1, 0, 0, 0, 0, 0, capacity], dtype=torch.int32)
    answers[:, :40] = head.view(torch.uint8)
    return answers, torch.zeros(rows, beam_size, capacity, dtype=torch.int32)


def test_what_finds_no_room_waits(cuda: Emulator) -> None:
    answers, path_slots = state(3, 2, 4)
    nodes = torch.full((2, 4), 99, dtype=torch.int32)
    cuda.ops.stage_beams(answers, path_slots, nodes, 1)
    assert nodes.tolist() == [[1, 0, 0, 0], [1, 0, 8, 1]]
    assert path_slots[:, 0, 0].tolist() == [0, 8, 0]
    assert answers[:, 32:36].contiguous().view(torch.int32).flatten().tolist() == [0, 1, -1]
    norms = torch.ones(5, dtype=torch.float64)
    best = torch.tensor([[5, 6], [6, 5]], dtype=torch.int32), torch.zeros(2, 2)
    cuda.ops.select_beams(answers, path_slots, *best, norms, 2)
    assert answers[:, 12:20].contiguous().view(torch.int32).tolist() == [[2, 1], [2, 1], [1, 0]]


class Recorder:
    """The operators; of every call of select_beams, what it was given and what it left."""

    def __init__(self, cuda: Emulator) -> None:
        self._ops = cuda.ops
        self.stage_beams, self.rank_tokens = cuda.ops.stage_beams, cuda.ops.rank_tokens
        self.calls: list[tuple[list[Any], list[Any]]] = []

    def select_beams(self, *arguments: Any) -> None:
        before = copy.deepcopy(arguments)
        self._ops.select_beams(*arguments)
        self.calls.append((list(before), list(copy.deepcopy(arguments))))


# Where hypotheses finish apart no rank looks at the others' places, so the first barrier is idle.
@pytest.mark.parametrize("barrier", [-1, *range(6)])
def test_selection_needs_each_of_its_barriers(cuda: Emulator, barrier: int) -> None:
    case = APART[4] if barrier else CASES[4]
    session = DeviceSession(cuda, 4, BeamRounds, 1)
    session.library = recorder = Recorder(cuda)
    run(session, case.search(4), 4)

    def goes_wrong(seed: int) -> bool:
        cuda.set(seed, skipped_barrier=barrier)
        before, after = copy.deepcopy(recorder.calls[seed])
        cuda.ops.select_beams(*before)
        return not (torch.equal(before[0], after[0]) and torch.equal(before[1], after[1]))

    assert any(goes_wrong(seed) for seed in range(len(recorder.calls))) == (barrier >= 0)


def test_wrong_shapes_are_refused(cuda: Emulator) -> None:
    answers, path_slots = state(2, 3, 4)
    nodes = torch.zeros(6, 4, dtype=torch.int32)
    ids, log_probs = torch.zeros(6, 3, dtype=torch.int32), torch.zeros(6, 3)
    norms = torch.ones(5, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"answers has shape \[2, 152\]: expected \[2, 160"):
        cuda.ops.stage_beams(answers[:, :152].contiguous(), path_slots, nodes, 1)
    with pytest.raises(RuntimeError, match=r"path_slots has shape \[2, 65, 4\]: expected"):
        cuda.ops.stage_beams(answers, torch.zeros(2, 65, 4, dtype=torch.int32), nodes, 1)
    with pytest.raises(RuntimeError, match=r"nodes has shape \[6, 3\]: expected \[at least 1, 4\]"):
        cuda.ops.stage_beams(answers, path_slots, nodes[:, :3].contiguous(), 1)
    with pytest.raises(RuntimeError, match=r"log_probs has shape \[6, 3\]: expected \[4, at least"):
        cuda.ops.rank_tokens(nodes[:4], log_probs, ids, log_probs)
    with pytest.raises(RuntimeError, match=r"best_ids has shape \[6, 2\]: expected \[6, 3\]"):
        cuda.ops.select_beams(answers, path_slots, ids[:, :2].contiguous(), log_probs, norms, 2)
    with pytest.raises(RuntimeError, match="length_norms has 4 entries: expected 5"):
        cuda.ops.select_beams(answers, path_slots, ids, log_probs, norms[:4], 2)
