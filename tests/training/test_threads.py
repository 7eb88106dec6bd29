"""The number of threads of a training, and its warnings about a budget that is too short."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from molspec.training import train, trainer
from molspec.training.threads import fastest
from tests.training.tiny import CONFIG, assert_equal


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


class Machine:
    """Its runs take the `seconds` that are set for the number of threads."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = {int(count.removeprefix("on_")): value for count, value in seconds.items()}
        self.now = 0.0
        self.counts: list[int] = []

    def run(self) -> None:
        self.counts.append(torch.get_num_threads())
        self.now += self.seconds[torch.get_num_threads()]

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("machine", "chosen"),
    [
        (Machine(on_1=1.0, on_2=0.6, on_4=0.4), 4),
        (Machine(on_1=1.0, on_2=9.0, on_4=17.0), 1),  # busy cores
        (Machine(on_1=1.0, on_2=0.6, on_4=1.2), 2),
        (Machine(on_1=1.0, on_2=0.95, on_4=0.93), 1),  # saves too little
    ],
)
@pytest.mark.usefixtures("four_threads")
def test_smallest_number_of_threads_that_is_fast_is_chosen(machine: Machine, chosen: int) -> None:
    assert fastest(machine.run, machine.clock) == pytest.approx(machine.seconds[chosen])
    assert torch.get_num_threads() == chosen


@pytest.mark.usefixtures("four_threads")
def test_slow_numbers_of_threads_are_measured_once() -> None:
    machine = Machine(on_1=1.0, on_2=2.0, on_4=17.0)
    fastest(machine.run, machine.clock)
    assert [machine.counts.count(count) for count in (1, 2, 4)] == [4, 1, 1]


def test_number_of_threads_need_not_be_a_power_of_two() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        fastest(Machine(on_1=1.0, on_2=0.8, on_3=0.5).run, (times := iter(range(1000))).__next__)
        assert next(times) == 18  # two readings a run, three numbers, three rounds
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("four_threads")
def test_measuring_changes_no_weights_and_restores_torchs_threads(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(CONFIG, steps=4, dropout=0.2)
    calls: list[int | None] = []

    def measure(run: object) -> float:
        calls.append(None)
        run()  # type: ignore[operator]
        torch.set_num_threads(1)
        return 1.0

    monkeypatch.setattr(trainer, "fastest", measure)
    for name, count in (("measured", None), ("given", 1)):
        train(data, tmp_path / name, config, threads=count)
        assert torch.get_num_threads() == 4
    assert calls == [None]
    stored = [torch.load(tmp_path / name / "state.pt") for name in ("measured", "given")]
    assert [each["threads"] for each in stored] == [1, 1]
    assert_equal(stored[0]["trainer"]["model"], stored[1]["trainer"]["model"])
    monkeypatch.setattr(trainer, "fastest", None)  # a resumed training has its threads
    train(data, tmp_path / "measured", replace(config, steps=5))


def test_too_short_budget_is_reported_before_and_after_training(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = replace(CONFIG, steps=None, minutes=1e-5)
    train(data, tmp_path / "short", config)
    before, after = caplog.messages
    with pytest.raises(ValueError, match="0 steps here, too few to learn from nothing: --start"):
        train(data, tmp_path / "refused", config, anyway=False)
    assert before.startswith("1e-05 minutes are about 0 steps here, too few to learn from: take")
    assert "steps are too few to learn from: take more minutes" in after


def test_zero_threads_are_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="threads is 0: expected at least 1"):
        train(data, tmp_path / "none", CONFIG, threads=0)
