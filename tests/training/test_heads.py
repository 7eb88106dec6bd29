"""Training draft heads: an interrupted training ends with the same weights."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from molspec import checkpoints
from molspec.checkpoints import Checkpoint, CheckpointError
from molspec.model.spec import HeadsSpec
from molspec.prediction.model import Model, load
from molspec.training.config import HeadsConfig
from molspec.training.heads import HeadsTrainer
from molspec.training.prepared import EncodedPairs
from tests import conftest, refused, tiny
from tests.training.tiny import answers, assert_equal, write_teacher

CONFIG = HeadsConfig(heads=HeadsSpec("low-rank", 3, 8), steps=40, batch_tokens=240)


def test_precision_and_optimizer_are_not_ignored(tmp_path: Path) -> None:
    losses = set()
    for precision in ("float32", "bfloat16"):
        config = replace(CONFIG, precision=precision)
        training = HeadsTrainer(tiny.checkpoint(), answers(), config, tmp_path / precision)
        losses.add(float(training.step(0.5)[0]))
    assert len(losses) == 2
    assert max(losses) < 1.1 * min(losses)


@pytest.mark.parametrize("joint", [False, True])
def test_only_matrices_decay(tmp_path: Path, joint: bool) -> None:
    config = replace(CONFIG, joint=joint)
    training = HeadsTrainer(tiny.checkpoint(), answers(), config, tmp_path / "state.pt")
    (optimizer,) = training._optimizers
    for group in optimizer.param_groups:
        assert all((each.dim() > 1) == (group["weight_decay"] > 0) for each in group["params"])


def test_heads_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    training = HeadsTrainer(tiny.checkpoint(), answers(), CONFIG, tmp_path / "state.pt")
    next(training.heads.parameters()).data.fill_(torch.nan)
    refused(CheckpointError, r"draft heads", training.grown, tiny.checkpoint())


def test_batches_are_not_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts would each count as a step in the accuracy of the last steps."""
    whole = HeadsTrainer(tiny.checkpoint(), answers(), CONFIG, tmp_path / "whole.pt")
    limited = HeadsTrainer(tiny.checkpoint(), answers(), CONFIG, tmp_path / "small.pt")
    for _ in range(3):
        whole.step(0.5)
    monkeypatch.setattr("molspec.training.trainer._CPU_TOKENS", 1)
    for _ in range(3):
        limited.step(0.5)
    assert whole.accuracy.tolist() == limited.accuracy.tolist()
    assert_equal(limited.heads.state_dict(), whole.heads.state_dict())


def test_joint_training_gives_a_new_model(tmp_path: Path) -> None:
    before = replace(tiny.with_spec_drafter().to("float16"), heads=tiny.with_heads().heads)
    before = replace(before, runs_in={"cpu": "int8"})
    queries = tiny.QUERIES[:-1]
    copies = EncodedPairs.pack((ids, ids) for ids in map(tiny.VOCABULARY.encode, queries))

    def nats(checkpoint: Checkpoint) -> float:
        results = Model(checkpoint).log_probs(queries, queries, canonical_queries=False)
        return -sum(result.predictions[0].log_prob for result in results)

    training = HeadsTrainer(before, copies, replace(CONFIG, joint=True), tmp_path / "state.pt")
    list(training.run())
    grown = training.grown(before)
    assert nats(grown) < 0.9 * nats(before)
    assert grown.fingerprint(False) != before.fingerprint(False)
    assert grown.dtype == "float16"
    assert grown.runs_in == {}
    assert grown.spec_drafter is None  # it was trained for the original model
    assert before.fingerprint(False)[:8] in (grown.card or "")
    checkpoints.write(grown, tmp_path / "model")
    plain, drafted = (
        load(tmp_path / "model").predict(tiny.QUERIES, drafter=drafter, max_length=30)
        for drafter in ("none", "heads")
    )
    assert drafted == plain
    assert drafted.statistics.accepted_tokens > 0


def test_command_trains_heads(data: Path, tmp_path: Path, run: conftest.Run) -> None:
    write_teacher(data, tmp_path / "small")
    sizes = f"--data {data} --pairs 8 --steps 3 --head-count 2 --output {tmp_path}"
    heads, written = tmp_path / "run" / "model" / "heads.safetensors", []
    for _ in range(2):  # a finished training is unchanged
        assert run(f"train-heads {tmp_path / 'small'} {sizes}/run") == 0
        written.append(heads.read_bytes())
    assert written[0] == written[1]
    results = load(tmp_path / "run" / "model").predict(["CCO"], drafter="heads", max_length=9)
    assert results.statistics.drafted_tokens > 0
    assert run(f"train-heads {tmp_path / 'small'} {sizes}/joint --joint") == 0
    assert "it is another model" in run.out
    assert run(f"train-heads {tmp_path / 'small'} {sizes}/other --kind other") == 2
    assert run(f"train-heads product {sizes}/other") == 2  # has another vocabulary
