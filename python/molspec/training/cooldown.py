"""A model of a training at a constant learning rate, by steps at a falling one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from molspec import checkpoints
from molspec.training.config import TrainConfig
from molspec.training.folder import has_state, read_state
from molspec.training.loop import Beginning, Outcome, run_training
from molspec.training.trainer import learning_rate_factor
from molspec.training.validation import Decode


def cool_down(
    run: str | Path,
    prepared: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    share: float = 0.1,
    steps: int | None = None,
    device: str | None = None,
    decode: Decode | None = None,
    shard_bytes: int | None = None,
    threads: int | None = None,
) -> Outcome:
    """Train a copy of the training in `run` with a learning rate that falls to 0.

    A training at a constant learning rate can go on for ever; a cooldown makes a model of what it
    has learned so far (Hu et al. 2024, MiniCPM, section 4; Hägele et al. 2024, section 3). It
    begins with the state that `run` saved last, at the learning rate that it has there, and takes
    `share` of the steps taken so far, or `steps`. `run` is only read: it may go on meanwhile. On
    the same data it goes on with the batches that come next in `run`; other data are read from
    their beginning. Interrupted, it goes on as `train` does; arguments are those of `train`.

    Raises ValueError where `run` holds no training with a model, and as `train` does.
    """
    run, output = Path(run), Path(output)
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share is {share}: expected more than 0, at most 1")
    if not has_state(run) or not (run / "model").exists():
        raise ValueError(f"run is {run}: expected the folder of a training that has a model")
    state = read_state(run)
    if has_state(output):
        config = TrainConfig.from_json(read_state(output)["config"])
        if config.schedule != "cooldown":
            raise ValueError(f"output is {output}: it holds a training that is no cooldown")
    else:
        config = _config(TrainConfig.from_json(state["config"]), state, share, steps)
    beginning = Beginning(config, checkpoints.read(run / "model"), state["start"], state)
    return run_training(prepared, output, beginning, device, decode, shard_bytes, threads)


def _config(
    config: TrainConfig, state: Mapping[str, Any], share: float, steps: int | None
) -> TrainConfig:
    taken = state["trainer"]["step_count"]
    used = config.share_used(taken, state["seconds"])
    factor = learning_rate_factor(used, config.warm_up, config.schedule)
    return replace(
        config,
        minutes=None,
        steps=max(1, round(share * taken)) if steps is None else steps,
        schedule="cooldown",
        warm_up=0.0,
        learning_rate=config.learning_rate * factor,
        patience=None,
    )
