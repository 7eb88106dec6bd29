"""Trainings of draft heads and of Spec-Drafters learn, and resume to the same bits."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from molspec.training.drafters import DrafterTrainer
from molspec.training.heads import HeadsTrainer
from molspec.training.spec_drafter import SpecDrafterTrainer
from tests import refused, tiny
from tests.training.test_heads import CONFIG as HEADS
from tests.training.test_spec_drafter import CONFIG as SPEC
from tests.training.tiny import answers, assert_equal

TRAININGS: dict[str, Any] = {
    "heads": (HeadsTrainer, HEADS),
    "heads with their model": (HeadsTrainer, replace(HEADS, joint=True, precision="bfloat16")),
    "Spec-Drafter": (SpecDrafterTrainer, SPEC),
    "published form": (SpecDrafterTrainer, replace(SPEC, published=True)),
}


@pytest.mark.parametrize("kind", TRAININGS)
def test_a_drafter_learns_and_resumes_to_the_same_weights(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(file: str) -> DrafterTrainer:
        trainer, config = TRAININGS[kind]
        started: DrafterTrainer = trainer(tiny.checkpoint(), answers(), config, tmp_path / file)
        return started

    monkeypatch.setattr("molspec.training.drafters._SAVED_STEPS", 12)
    unbroken = start("whole.pt")
    assert list(unbroken.run()) == list(range(1, 41))
    assert 0.3 < float(unbroken.accuracy[0]) < 0.9  # a mean over the last steps
    for _ in range(3):
        list(islice(start("state.pt").run(), 15))
    resumed = start("state.pt")
    assert resumed.step_count == 36
    list(resumed.run())
    assert_equal(resumed.state()["model"], unbroken.state()["model"])


def test_state_of_another_training_is_refused(tmp_path: Path) -> None:
    path, model, data = tmp_path / "state.pt", tiny.checkpoint(), answers()
    list(HeadsTrainer(model, data, HEADS, path).run())
    for name, *changed in (
        ("config", model, data, replace(HEADS, seed=1)),
        ("model", tiny.checkpoint(seed=2), data, HEADS),
        ("data", model, data.spread(2), HEADS),
    ):
        refused(f"^{name} is .* holds a training of a drafter", HeadsTrainer, *changed, path)
