"""Beam search rounds on the device, run as host code, equal those on the host to the bit."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from molspec._native import BeamSpec
from molspec.engine.cuda.beams import BeamExecutor
from tests import reference, refused
from tests.cuda.emulator import Emulator
from tests.cuda.sessions import DeviceSession, HostSession, check_rounds, field, run


@dataclass(frozen=True)
class Case:
    beam_size: int
    n_best: int
    max_length: int
    length_penalty: float = 0.0
    finished_apart: bool = False
    steps: int = 0
    node_budget: int = 0
    min_confidence: float = 0.0

    def spec(self) -> BeamSpec:
        return BeamSpec(**vars(self))


CASES = (
    Case(1, 1, 9),
    Case(2, 2, 1),
    Case(3, 3, 2, 1.0),
    Case(5, 5, 24),
    Case(5, 3, 11, 0.7),
    Case(20, 20, 6),  # wider than the vocabulary
    Case(64, 10, 3, 2.0),
)
#: Exact beams that look ahead on the host.
EXACT = (
    Case(1, 1, 24, 0.0, False, 6, 6),
    Case(2, 2, 1, 0.0, False, 3, 4),
    Case(5, 5, 24, 0.0, False, 12, 25, 0.4),
    Case(5, 3, 11, 0.7, False, 4, 60),
)
APART = tuple(replace(case, finished_apart=True) for case in CASES)
EXACT += tuple(replace(case, finished_apart=True) for case in EXACT)


@pytest.mark.parametrize("case", CASES + APART, ids=str)
def test_device_rounds_equal_host_rounds(cuda: Emulator, case: Case) -> None:
    batches = ((4, 1),) if case.beam_size >= 20 else ((4, 1), (1, 2), (3, 2), (16, 5))
    check_rounds(cuda, BeamExecutor, case.spec(), batches)


@pytest.mark.parametrize("case", EXACT, ids=str)
@pytest.mark.parametrize("nan_share", [0.0, 0.2])
def test_exact_beams_take_standard_rounds(cuda: Emulator, case: Case, nan_share: float) -> None:
    standard = replace(case, steps=0, node_budget=0).spec()
    host, ahead, device = HostSession(4), HostSession(4), DeviceSession(cuda, 4, BeamExecutor, 1)
    host.nan_share = ahead.nan_share = device.nan_share = nan_share / case.beam_size
    expected, undrafted = run(host, standard, 4)
    assert run(device, case.spec(), 4)[0] == expected
    exact, drafted = run(ahead, case.spec(), 4)  # NaN after unused drafts is no error
    assert [exact[i][::2] for i in exact] == [expected[i][::2] for i in exact]
    if case.max_length > 1:
        assert 0 < sum(bool(error) for _, _, error in exact.values()) < len(exact)
        assert 0 < drafted.accepted_tokens <= drafted.drafted_tokens
        assert drafted.query_calls < undrafted.query_calls or nan_share


def ranked(library: object, nodes: Tensor, log_probs: Tensor, count: int) -> list[Tensor]:
    """The best tokens by node."""
    best = [torch.full((len(nodes), count), -9, dtype=torch.int32), torch.zeros(0)]
    best[1] = torch.full(best[0].shape, -9.0)
    library.rank_tokens(nodes, log_probs, best)  # type: ignore[attr-defined]
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
    for result, twin in zip(ours, theirs, strict=True):
        torch.testing.assert_close(result, twin, atol=0, rtol=0, equal_nan=True)
        assert (result[7] == -9).all()
        assert not (result[6] == -9).any()


def beam_state(
    rows: int, beam_size: int, capacity: int, apart: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Answers of queries before their first round, their nodes and paths."""
    size = 48 + beam_size * (24 * (1 + apart) + 4 * capacity)
    answers = torch.zeros(rows, size, dtype=torch.uint8)
    head = torch.tensor([1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, capacity - 1]).int()
    answers[:, :48] = head.view(torch.uint8)
    nodes = torch.zeros(rows, beam_size, 16, 2, dtype=torch.int32)
    return answers, nodes, torch.zeros(rows, 2, beam_size, capacity, dtype=torch.int32)


def test_queries_without_room_for_nodes_wait(cuda: Emulator) -> None:
    beams = beam_state(3, 2, 4)
    nodes = torch.full((2, 4), 99, dtype=torch.int32)
    cuda.ops.stage_beams(beams, nodes, 2, 1)
    assert nodes.tolist() == [[1, 0, 0, 0], [1, 0, 16, 1]]
    assert beams[2][:, 0, 0, 0].tolist() == [0, 32, 0]
    assert field(beams[0], 10) == [0, 1, -1]  # first_node
    best = torch.tensor([[5, 6]] * 2, dtype=torch.int32), torch.tensor([[-1.0, -2.0]] * 2)
    cuda.ops.extend_beams(beams, best, torch.ones(4).double(), 2, 2)
    assert field(beams[0], 3) == [1, 1, 0]  # length
    assert field(beams[0], 9) == [2, 2, 1]  # live_count
    # The best hypothesis stays in its parent's lane, the other goes to a free one.
    assert beams[1][1, :, 1].tolist() == [[5, 0], [6, 0]]  # token_id, parent
    assert beams[2][1, 1, :, :2].tolist() == [[32, 33], [32, 49]]
    cuda.ops.stage_beams(beams, nodes, 2, 1)
    assert nodes.tolist() == [[5, 1, 8, 0], [6, 1, 12, 0]]


def test_wrong_shapes_are_refused(cuda: Emulator) -> None:
    answers, tree, paths = beams = beam_state(2, 3, 4)
    nodes = torch.zeros(6, 4, dtype=torch.int32)
    best = torch.zeros(6, 3, dtype=torch.int32), torch.zeros(6, 3)
    few, narrow = [each[:5] for each in best], [each[:, :2].contiguous() for each in best]
    short, half = tree[:, :, :15].contiguous(), paths[:, :1].contiguous()
    norms = torch.ones(4, dtype=torch.float64)
    stage, rank, extend = cuda.ops.stage_beams, cuda.ops.rank_tokens, cuda.ops.extend_beams
    for argument, value, call, *arguments in (
        ("answers", 160, stage, [answers[:, :160].contiguous(), tree, paths], nodes, 3, 1),
        ("beam_size", 65, stage, beams, nodes, 65, 1),
        ("path_slots", r"\[2, 1, 3, 4\]", stage, [answers, tree, half], nodes, 3, 1),
        ("beam_nodes", r"\[2, 3, 15, 2\]", stage, [answers, short, paths], nodes, 3, 1),
        ("nodes", r"\[6, 3\]", stage, beams, nodes[:, :3].contiguous(), 3, 1),
        ("beams", 2, stage, beams[:2], nodes, 3, 1),
        ("log_probs", r"\[5, 3\]", rank, nodes, torch.zeros(5, 3), best),
        ("best_ids", r"\[5, 3\]", rank, nodes, torch.zeros(6, 3), few),
        ("best_ids", r"\[6, 2\]", extend, beams, narrow, norms, 3, 2),
        ("best", 1, extend, beams, best[:1], norms, 3, 2),
        ("length_norms", 3, extend, beams, best, norms[:3], 3, 2),
    ):
        refused(RuntimeError, f"^{argument} .*{value}", call, *arguments)


@pytest.mark.parametrize("barrier", range(5))
@pytest.mark.parametrize("apart", [False, True])
def test_a_next_beam_needs_its_barriers(cuda: Emulator, apart: bool, barrier: int) -> None:
    """Three rounds of two wide beams; only in the second one hypotheses end."""
    size, width, generator = 20, 20 + apart, torch.Generator().manual_seed(3)
    log_probs = -torch.rand(3, 2 * size, width, generator=generator).sort().values
    tokens = torch.arange(2 * size).view(-1, 1) // size * -3 + torch.arange(6, 6 + width)

    def extend() -> list[Tensor]:
        beams = beam_state(2, size, 8, apart)
        first_nodes = torch.tensor([[0], [size]], dtype=torch.int32)
        for each in log_probs:
            beams[0][:, 40:44] = first_nodes.view(torch.uint8)
            best, norms = [tokens.int(), each], torch.ones(8, dtype=torch.float64)
            cuda.ops.extend_beams(beams, best, norms, size, 5)
        return list(beams)

    assert cuda.needs_barrier(barrier, extend)
