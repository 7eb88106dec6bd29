"""A training at a constant learning rate, and cooldowns that make models of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from molspec import checkpoints
from molspec.training import TrainConfig, cool_down, train
from tests.training.tiny import CONFIG, assert_equal, column, stopped, weights

TRUNK = replace(CONFIG, schedule="constant", warm_up=0.25)


@pytest.fixture(scope="module")
def trunk(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("trunk") / "run"
    train(data, output, TRUNK)
    return output


def test_learning_rate_stays_constant(trunk: Path) -> None:
    assert column(trunk, "log.csv", "learning_rate")[-1] == TRUNK.learning_rate


def test_cooldown_learns_and_leaves_its_training_unchanged(
    data: Path, trunk: Path, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in trunk.rglob("*") if path.is_file()}
    outcome = cool_down(trunk, data, tmp_path / "cooled", share=0.5)
    assert outcome.step_count == 12
    assert {path: path.read_bytes() for path in trunk.rglob("*") if path.is_file()} == before
    rates = column(tmp_path / "cooled", "log.csv", "learning_rate")
    assert 0.0 < rates[-1] < 0.1 * TRUNK.learning_rate
    assert outcome.best.loss < column(trunk, "validation.csv", "loss")[-1]
    card = checkpoints.read(outcome.model).card
    assert card is not None
    assert "12 steps" in card


def test_cooldown_begins_with_the_next_batch_of_its_training(data: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "run", replace(TRUNK, steps=20))
    cool_down(tmp_path / "run", data, tmp_path / "cooled", steps=1)
    before, after = (
        torch.load(tmp_path / name / "state.pt", weights_only=True)["trainer"]
        for name in ("run", "cooled")
    )
    assert before["batch_index"] == 4  # in the middle of an epoch
    assert after["batch_index"] == 5
    assert after["epoch_number"] == before["epoch_number"]
    assert after["step_count"] == 1


def test_stopped_training_and_cooldown_reach_the_same_weights(
    data: Path, trunk: Path, tmp_path: Path
) -> None:
    output, saving = tmp_path / "run", replace(TRUNK, save_minutes=0.0)
    for step in (2, 9):
        with stopped(step):
            train(data, output, saving)
    train(data, output, saving)
    assert_equal(weights(output), weights(trunk))

    cool_down(trunk, data, tmp_path / "unbroken", steps=10)
    with stopped(5):
        cool_down(output, data, tmp_path / "cooled", steps=10)
    train(data, output, replace(saving, steps=30))  # the training continues
    cool_down(output, data, tmp_path / "cooled")
    assert_equal(weights(tmp_path / "cooled"), weights(tmp_path / "unbroken"))


def test_resumed_cooldown_takes_more_steps_but_no_other_training(
    data: Path, trunk: Path, tmp_path: Path
) -> None:
    cool_down(trunk, data, tmp_path / "cooled", steps=2)
    assert cool_down(trunk, data, tmp_path / "cooled").step_count == 2
    assert cool_down(trunk, data, tmp_path / "cooled", steps=3).step_count == 3
    train(data, tmp_path / "other", replace(TRUNK, steps=1, seed=1))
    with pytest.raises(ValueError, match=r"seed is 1, but .*cooled holds a training with 0"):
        cool_down(tmp_path / "other", data, tmp_path / "cooled")


def test_cooldown_begins_with_the_current_learning_rate(data: Path, tmp_path: Path) -> None:
    falling = replace(CONFIG, steps=20, warm_up=0.0)
    train(data, tmp_path / "run", replace(falling, steps=10))
    train(data, tmp_path / "run", falling)
    state = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    state["trainer"]["step_count"] = 15  # at a quarter of the rate
    torch.save(state, tmp_path / "run" / "state.pt")
    cool_down(tmp_path / "run", data, tmp_path / "cooled", steps=4)
    config = json.loads((tmp_path / "cooled" / "config.json").read_text())
    assert config["learning_rate"] == pytest.approx(0.25 * falling.learning_rate)
    assert TrainConfig.from_json(config).schedule == "cooldown"


def test_invalid_cooldowns_are_refused(data: Path, trunk: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected the folder of a training that has a model"):
        cool_down(tmp_path, data, tmp_path / "cooled")
    with pytest.raises(ValueError, match="share is 0: expected more than 0, at most 1"):
        cool_down(trunk, data, tmp_path / "cooled", share=0)
    train(data, tmp_path / "finished", replace(CONFIG, steps=4, schedule="linear"))
    with pytest.raises(ValueError, match="learning rate has fallen to 0, schedule 'linear': exp"):
        cool_down(tmp_path / "finished", data, tmp_path / "cooled")
    with pytest.raises(ValueError, match="holds a training that is not a cooldown"):
        cool_down(trunk, data, trunk)
