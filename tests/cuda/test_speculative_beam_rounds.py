"""SBS rounds on the device, run as host code, equal those on the host to the bit."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import pytest
import torch

from molspec._native import SpeculativeBeamSpec
from molspec.drafting import NoDraft, WindowDrafts, native_options
from molspec.engine.cuda.beams import SpeculativeBeamExecutor
from tests.cuda.emulator import Emulator
from tests.cuda.sessions import Calls, DeviceSession, HostSession, beam_state, run


@dataclass(frozen=True)
class Case:
    beam_size: int
    n_best: int
    max_length: int
    windows: WindowDrafts | None
    length_penalty: float = 0.0
    nucleus: float = 0.9975

    def spec(self) -> SpeculativeBeamSpec:
        return SpeculativeBeamSpec(
            beam_size=self.beam_size,
            n_best=self.n_best,
            max_length=self.max_length,
            length_penalty=self.length_penalty,
            nucleus=self.nucleus,
            drafter=native_options(self.windows or NoDraft()),
        )


CASES = (
    Case(1, 1, 24, WindowDrafts(draft_length=4, draft_count=6)),
    Case(2, 2, 1, WindowDrafts(draft_length=2, draft_count=2)),
    Case(3, 2, 24, WindowDrafts(draft_length=15, draft_count=2)),
    Case(5, 5, 24, WindowDrafts(draft_length=4, draft_count=3, dilution=True)),
    Case(5, 3, 11, WindowDrafts(draft_length=5, draft_count=4, smart=True), 0.7),
    Case(5, 5, 24, WindowDrafts(draft_length=4, draft_count=6), 1.0, 0.5),
    Case(20, 20, 6, WindowDrafts(draft_length=3, draft_count=2)),  # wider than the vocabulary
    Case(4, 4, 12, None),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_device_rounds_equal_host_rounds(cuda: Emulator, case: Case) -> None:
    expected, host = run(HostSession(4), case.spec(), 4)
    assert any(error for _, _, error in expected.values()) == (case.max_length > 2)
    assert (host.accepted_tokens > 0) == (case.max_length > 1 and case.windows is not None)
    for batch_size, ahead in ((4, 1), (1, 2), (3, 2), (16, 5))[: 4 if case.beam_size < 20 else 1]:
        cuda.set(seed=batch_size)
        session = DeviceSession(cuda, batch_size, SpeculativeBeamExecutor, ahead)
        outcomes, device = run(session, case.spec(), batch_size)
        assert outcomes == expected
        assert device.nodes == host.nodes
        assert device.query_calls == host.query_calls
        if batch_size == 4:  # the host reads every round: the rounds are equal
            assert device.decoder_calls == host.decoder_calls


@pytest.mark.parametrize("case", [CASES[2], CASES[3], CASES[5]], ids=str)
def test_no_token_is_accepted_after_nan(cuda: Emulator, case: Case) -> None:
    host, device = HostSession(4), DeviceSession(cuda, 4, SpeculativeBeamExecutor, 1)
    host.nan_share = device.nan_share = 0.1
    expected, _ = run(host, case.spec(), 4)
    outcomes, _ = run(device, case.spec(), 4)
    assert outcomes == expected
    lists = [hypotheses for hypotheses, _, error in outcomes.values() if not error]
    assert 0 < len(lists) < len(outcomes) - 1
    assert all(isfinite(log_prob) for hypotheses in lists for _, log_prob, _ in hypotheses)


def test_search_options_change_the_hypotheses() -> None:
    cases = [CASES[3], CASES[5], Case(5, 5, 24, None), Case(5, 5, 24, CASES[5].windows)]
    outcomes = [run(HostSession(4), case.spec(), 4)[0] for case in cases]
    assert len({str([item[index][0] for index in range(10)]) for item in outcomes}) == len(cases)


# Without its barriers plan_windows would follow pointers that are not written yet.
@pytest.mark.parametrize(
    ("name", "barriers"), [("plan_windows", ()), ("select_leaves", range(1, 10))]
)
def test_thread_order_changes_nothing_and_barriers_are_needed(
    cuda: Emulator, name: str, barriers: Sequence[int]
) -> None:
    calls = Calls(cuda, name)
    for case in (CASES[3], CASES[5]):
        session = DeviceSession(cuda, 4, SpeculativeBeamExecutor, 1)
        session.library = calls
        run(session, case.spec(), 4)
    assert not calls.results_change()
    assert [barrier for barrier in barriers if not calls.results_change(barrier)] == []


def test_tree_that_does_not_fit_is_not_planned(cuda: Emulator) -> None:
    for windows in ([1, -1, 0, 3, 5, -1, 5, 0], [1, -1, 1, 2, 5, -1, 5, 0], [1, 7, 0, 1, 5, -1]):
        answers, *trees = beam_state(1, 1, 4, 16)
        trees[3] = torch.zeros(1, 3, dtype=torch.int32)
        cuda.ops.plan_windows([answers, *trees], torch.tensor([windows]).int(), 1, 1)
        assert answers[0, 36:40].view(torch.int32).item() == 1  # planned_count: BOS
    answers, *trees = beam_state(1, 1, 4, 16)
    trees[3] = torch.zeros(1, 3, dtype=torch.int32)
    fitting = torch.tensor([[1, -1, 0, 2, 5, -1, 6, 0]]).int()
    cuda.ops.plan_windows([answers, *trees], fitting, 1, 1)
    assert answers[0, 36:40].view(torch.int32).item() == 3
    assert trees[0][0, 1:3, :2].tolist() == [[5, 1], [6, 2]]  # token_id, position


def test_wrong_shapes_are_refused(cuda: Emulator) -> None:
    answers, *trees = beam_state(2, 3, 4, 32)
    windows = torch.zeros(2, 1, dtype=torch.int32)
    best = torch.zeros(64, 3, dtype=torch.int32), torch.zeros(64, 3), torch.ones(4).double()
    with pytest.raises(RuntimeError, match=r"windows has shape \[1, 1\]: expected a row a query"):
        cuda.ops.plan_windows([answers, *trees], windows[:1], 3, 1)
    plans = torch.zeros(2, 18, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="path_slots has 32 nodes a query: expected at least 33"):
        cuda.ops.plan_windows([answers, *trees[:3], plans], windows, 3, 1)
    separate = torch.zeros(2, 256, dtype=torch.uint8), *(tensor for tensor in trees)
    ids, log_probs = torch.zeros(64, 4, dtype=torch.int32), torch.zeros(64, 4)
    with pytest.raises(RuntimeError, match="answers has room for hypotheses that finish apart"):
        cuda.ops.select_leaves(separate, [ids, log_probs], best[2], 3, 0.9, 2)
    with pytest.raises(RuntimeError, match=r"best_ids has shape \[64, 4\]: expected \[64, 3\]"):
        cuda.ops.select_leaves([answers, *trees], [ids, log_probs], best[2], 3, 0.9, 2)
