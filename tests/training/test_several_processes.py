"""Two processes train as one: the same step, the same bits after a kill, one error for both."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from molspec.training import TrainConfig, train
from molspec.training.batches import Batches
from molspec.training.prepared import read
from molspec.training.torchrun import Ranks
from tests import refused
from tests.training.tiny import CONFIG, assert_equal

SCRIPT = Path(__file__).with_name("together.py")
STILL = replace(CONFIG, learning_rate=1e-30, validate_every=2, patience=2)
#: Unchanged gradients: no dropout, rounding to bfloat16, clipping or learning.
PLAIN = replace(CONFIG, learning_rate=1e-30, dropout=0.0, precision="float32", gradient_norm=1e9)


@pytest.fixture(scope="module")
def plain(data: Path) -> TrainConfig:
    """An epoch with batches of one pair and of three, which two processes cannot share evenly."""
    prepared = read(data)
    spec = PLAIN.spec(prepared.vocabulary.size)
    longest = int((prepared.train.source_lengths + prepared.train.target_lengths).max()) + 4
    for budget in range(longest, 2 * longest):
        batches = Batches(prepared.train, spec, prepared.vocabulary, budget, torch.device("cpu"))
        bounds = batches.epoch(PLAIN.seed, 0).bounds
        sizes = [end - begin for begin, end in pairwise(bounds)]
        if {1, 3} <= set(sizes):
            return replace(PLAIN, batch_tokens=budget, steps=len(sizes))
    raise AssertionError


@pytest.fixture(scope="module")
def together(
    data: Path, plain: TrainConfig, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The folder of several trainings by two processes, and their printed text."""
    output = tmp_path_factory.mktemp("together")
    minutes = replace(CONFIG, steps=None, minutes=0.01)
    configs = {"plain": plain, "still": STILL, "minutes": minutes}
    configs |= dict.fromkeys(("unbroken", "killed"), CONFIG)
    trainings = json.dumps({name: config.to_json() for name, config in configs.items()})
    launcher = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1")
    with subprocess.Popen(
        [sys.executable, "-m", *launcher, SCRIPT, data, output, trainings],
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=1200)  # 35 s of a core
        finally:
            process.terminate()  # ends its processes too, which a kill would not
    assert process.returncode == 1, printed  # because the last command has a mistake
    return output, printed


def results(output: Path, name: str) -> list[dict[str, Any]]:
    """The results of each process."""
    return [torch.load(output / f"{name}.{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("name", ["plain", "still", "minutes", "unbroken"])
def test_both_processes_have_equal_weights_and_stop_at_the_same_step(
    plain: TrainConfig, together: tuple[Path, str], name: str
) -> None:
    first, second = results(together[0], name)
    assert_equal(second["weights"], first["weights"])
    assert second["best"] == first["best"]
    assert second["steps"] == first["steps"] == first["steps_of_this_attempt"]
    if name != "minutes":
        assert first["steps"] == {"plain": plain.steps, "still": 6, "unbroken": 24}[name]


def momentum(output: Path) -> Tensor:
    """The optimisers' moments: means of the gradients of all steps, mostly of the last ones."""
    trainer = torch.load(output / "state.pt", weights_only=True)["trainer"]
    states = [state for optimizer in trainer["optimizers"] for state in optimizer["state"].values()]
    moments = [state.get("exp_avg", state.get("momentum_buffer")).flatten() for state in states]
    return torch.cat(moments)


def test_gradients_equal_those_of_one_process(
    data: Path, plain: TrainConfig, together: tuple[Path, str], tmp_path: Path
) -> None:
    outcome = train(data, tmp_path / "run", plain, device="cpu")
    expected = momentum(tmp_path / "run")
    difference = momentum(together[0] / "plain") - expected
    assert difference.norm() < 1e-6 * expected.norm()
    logs = [
        (folder / "log.csv").read_text().splitlines()[-1].split(",")
        for folder in (tmp_path / "run", together[0] / "plain")
    ]
    assert [float(row[5]) for row in logs] == pytest.approx([float(logs[0][5])] * 2, rel=1e-5)
    assert logs[0][3] == logs[1][3] == str(outcome.token_count)


def test_killed_processes_resume_to_the_same_weights(together: tuple[Path, str]) -> None:
    killed, unbroken = (results(together[0], name) for name in ("killed", "unbroken"))
    for found, expected in zip(killed, unbroken, strict=True):
        assert expected["steps_of_this_attempt"] == 24
        assert found["steps_of_this_attempt"] == 16  # 8 were saved
        assert_equal(found["weights"], expected["weights"])
        assert found["best"] == expected["best"]


def test_one_process_resumes_a_training_of_two(data: Path, together: tuple[Path, str]) -> None:
    outcome = train(data, together[0] / "still", replace(STILL, patience=4), device="cpu")
    assert outcome.step_count == 10


def test_command_prints_its_result_once(together: tuple[Path, str]) -> None:
    output, printed = together
    assert printed.count("2 steps in") == 1
    assert (output / "by-command" / "model" / "model.safetensors").exists()


def test_error_is_printed_once_and_ends_both_processes(together: tuple[Path, str]) -> None:
    output, printed = together
    assert printed.count("--batch-tokens is 9: expected at least") == 1
    assert "lost the others" not in printed
    assert not (output / "mistaken").exists()


class Second(Ranks):
    """Process 1, if process 0 has other values."""

    def from_lead(self, compute: Any) -> Any:
        return {name: f"not {value}" for name, value in compute().items()}


def test_processes_with_different_arguments_are_refused() -> None:
    refused("config of process 1 is not that of process 0", Second(1, 2).check_same, config="this")


def test_each_process_takes_its_own_device(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", chosen.append)
    assert Ranks(3, 4, 1, 2).device(None) == torch.device("cuda:1")
    assert chosen == [1]
    assert Ranks(3, 4, 1, 2).device("cpu") == torch.device("cpu")
    assert Ranks().device("cuda:1") == torch.device("cuda:1")
    refused("device is 'cuda:1'", Ranks(3, 4, 1, 2).device, "cuda:1")
    refused("4 processes are on a machine with 2 GPUs", Ranks(0, 4, 0, 4).device, None)


def test_process_and_step_decide_the_random_numbers() -> None:
    drawn = []
    for rank, step in ((0, 5), (1, 5), (0, 6), (0, 5)):
        Ranks(rank, 2).draw_apart(7, step)
        drawn.append(tuple(torch.rand(3).tolist()))
    assert len(set(drawn)) == 3
    assert drawn[3] == drawn[0]
    before = torch.get_rng_state()
    Ranks().draw_apart(7, 5)  # one process continues its own sequence
    assert torch.equal(torch.get_rng_state(), before)
