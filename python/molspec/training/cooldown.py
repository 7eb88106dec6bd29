"""Makes a model from a training at a constant learning rate, by steps at a falling one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from molspec import checkpoints
from molspec.training.config import TrainConfig
from molspec.training.folder import has_state, read_training
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
    threads: int | None = None,
) -> Outcome:
    """Train a copy of the training in `run` with a learning rate that falls to 0.

    A training at a constant learning rate has no end. A cooldown makes a model from it at any time
    (Hu et al. 2024, MiniCPM, section 4; Hägele et al. 2024, section 3). It begins with the last
    saved state of `run`, at its learning rate. It takes `share` of the steps so far, or `steps`.
    `run` is only read, so it may continue meanwhile. On the same data, the cooldown takes the
    batches that come next in `run`; it reads other data from their beginning. It resumes as `train`
    does, with its earlier number of steps unless `steps` is given. The other arguments are those of
    `train`.

    Raises ValueError if `run` has no training with a model, if `output` has a cooldown of a
    training with other settings, and for what `train` refuses.
    """
    run, output = Path(run), Path(output)
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share is {share}: expected more than 0, at most 1")
    if not has_state(run) or not (run / "model").exists():
        raise ValueError(f"run is {run}: expected the folder of a training that has a model")
    state = read_training(run)
    config = TrainConfig.from_json(state["config"])
    if has_state(output):
        begun = TrainConfig.from_json(read_training(output)["config"])
        if begun.schedule != "cooldown":
            raise ValueError(f"output is {output}: it holds a training that is not a cooldown")
        steps = begun.steps if steps is None else steps
        learning_rate = begun.learning_rate  # `run` may have continued since
    else:
        taken = state["trainer"]["step_count"]
        used = config.share_used(taken, state["seconds"])
        factor = learning_rate_factor(used, config.warm_up, config.schedule)
        steps = max(1, round(share * taken)) if steps is None else steps
        learning_rate = config.learning_rate * factor
        if not learning_rate:
            raise ValueError(
                f"run is {run}: its learning rate has fallen to 0, schedule {config.schedule!r}: "
                "expected a training with the schedule 'constant'"
            )
    config = replace(
        config,
        minutes=None,
        steps=steps,
        schedule="cooldown",
        warm_up=0.0,
        learning_rate=learning_rate,
        patience=None,
    )
    beginning = Beginning(config, checkpoints.read(run / "model"), state["start"], state)
    return run_training(prepared, output, beginning, device, decode, threads)
