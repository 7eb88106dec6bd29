"""The training loop: steps, validations, saved states, the model written.

A training's folder:
config.json     the configuration
log.csv         loss and speed, every few steps
validation.csv  a row a validation
state.pt        what the next step depends on; a training that was killed goes on from it
model/          a checkpoint: the averaged weights of the best validation
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from molspec import checkpoints
from molspec.checkpoints import Checkpoint
from molspec.drafting import build_ngram
from molspec.model.spec import ModelSpec
from molspec.model.transformer import Transformer
from molspec.training.batches import Batches
from molspec.training.card import write_card
from molspec.training.config import TrainConfig
from molspec.training.log import CsvLog
from molspec.training.prepared import Prepared, read
from molspec.training.trainer import Trainer, new_model
from molspec.training.validation import Decode, Validation, Validator

_STATE = "state.pt"
#: Pairs that make the n-gram model that drafts.
_NGRAM_PAIRS = 60_000
#: Steps between two looks at the loss: a GPU does not wait in between.
_LOG_STEPS = 50
#: What may differ where a training goes on: budget and bookkeeping.
_CHANGEABLE = ("minutes", "steps", "patience", "save_minutes", "decoded_pairs")


class TrainingError(RuntimeError):
    """A training that cannot go on; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """What a training came to. `best` is the validation of the model in `model`."""

    model: Path
    best: Validation
    step_count: int
    token_count: int
    minutes: float


def train(
    prepared: str | Path,
    output: str | Path,
    config: TrainConfig,
    *,
    start: Checkpoint | None = None,
    device: str | None = None,
    decode: Decode | None = None,
    shard_bytes: int | None = None,
) -> Outcome:
    """Train a model on the folder `prepared` and write it to `output`/model.

    Where `output` holds the same training, interrupted, it goes on from its last saved state:
    after a number of steps its weights are the same to the bit on a CPU as if it had never
    stopped. `start` is a model to train further: its vocabulary must be that of the data, its
    sizes are kept. `device` is "cuda" where there is one, otherwise "cpu". `decode` is called with
    the model at each validation to measure top-1. `shard_bytes` bounds the files of the weights.

    Raises ValueError where settings, data or folder do not go together, TrainingError where the
    loss is no number any more, OSError where a file cannot be written.
    """
    data = read(prepared)
    output = Path(output)
    chosen = _device(device)
    model = _model(data, config, start)
    stored = _stored(output / _STATE, config, data)
    training = _Training(data, output, config, model, chosen, decode, shard_bytes)
    if stored is not None:
        training.restore(stored)
    return training.run()


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind = name.partition(":")[0]
    if kind not in ("cpu", "cuda") or (kind == "cuda" and not torch.cuda.is_available()):
        able = "cpu or cuda" if torch.cuda.is_available() else "cpu, there is no usable GPU"
        raise ValueError(f"device is {name!r}: expected {able}")
    return torch.device(name)


def _model(data: Prepared, config: TrainConfig, start: Checkpoint | None) -> Transformer:
    pad_id = data.vocabulary.pad_id
    if start is None:
        return new_model(config.spec(data.vocabulary.size), config, pad_id)
    if config.model:
        raise ValueError("config.model is given with start: its sizes are kept, leave them out")
    if start.vocabulary != data.vocabulary:
        raise ValueError("start has another vocabulary: prepare the data with start's vocabulary")
    model = new_model(start.spec, config, pad_id)
    model.load_state_dict({name: weight.float() for name, weight in start.weights.items()})
    return model


def _stored(path: Path, config: TrainConfig, data: Prepared) -> dict[str, Any] | None:
    """Load the saved state of the same training, None where there is none."""
    if not path.exists():
        if path.parent.exists() and set(path.parent.iterdir()) - {_unfinished(path)}:
            raise ValueError(f"output is {path.parent}: it holds something else than a training")
        return None
    stored: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    for name, value in config.to_json().items():
        if name not in _CHANGEABLE and stored["config"][name] != value:
            raise ValueError(
                f"{name} is {value!r}, but {path.parent} holds a training with "
                f"{stored['config'][name]!r}: take another output folder to begin anew"
            )
    if stored["data"] != _fingerprint(data):
        raise ValueError(f"{path.parent} holds a training on other data")
    return stored


def _unfinished(path: Path) -> Path:
    return path.with_name(f"{path.name}.unfinished")


def _fingerprint(data: Prepared) -> str:
    return json.dumps([data.description, data.vocabulary.to_json()], sort_keys=True)


class _Training:
    """A trainer with its clock, its validations and its files."""

    def __init__(
        self,
        data: Prepared,
        output: Path,
        config: TrainConfig,
        model: Transformer,
        device: torch.device,
        decode: Decode | None,
        shard_bytes: int | None,
    ) -> None:
        self._data, self._output, self._config = data, output, config
        self._shard_bytes = shard_bytes
        shared = (model.spec, data.vocabulary)
        batches = Batches(data.train, *shared, config.batch_tokens, device)
        self._trainer = Trainer(model, batches, config, device)
        self._validate = Validator(data.validation, *shared, config, device, decode)
        self._seconds = 0.0
        self._best: Validation | None = None
        self._worse_count = 0
        self._finished = False

    def run(self) -> Outcome:
        """Train until the budget is used up or nothing improves."""
        if self._trainer.step_count == 0:
            self._output.mkdir(parents=True, exist_ok=True)
            self._save()  # first of all: a folder with a state is a training that can go on
        config = json.dumps(self._config.to_json(), indent=1) + "\n"
        (self._output / "config.json").write_text(config, encoding="utf-8")
        self._open_logs()
        if not self._finished:
            self._trainer.warm_up()
            self._loop()
        assert self._best is not None
        counts = (self._trainer.step_count, self._trainer.token_count)
        return Outcome(self._output / "model", self._best, *counts, self._seconds / 60)

    def _open_logs(self) -> None:
        numbers = ("step", "epoch", "minutes", "tokens")
        measured = ("learning_rate", "loss", "tokens_per_second")
        judged = ("loss", "token_accuracy", "sequence_accuracy", "top_1")
        at = self._trainer.step_count
        self._log = CsvLog(self._output / "log.csv", numbers + measured, at)
        self._validation_log = CsvLog(self._output / "validation.csv", numbers + judged, at)

    def _loop(self) -> None:
        began = monotonic() - self._seconds
        saved = self._seconds
        window = _Window(self._trainer.token_count, self._seconds)
        bar = tqdm(total=100, unit="%", disable=None, bar_format="{l_bar}{bar}| {elapsed}{postfix}")
        with bar:
            while not self._finished:
                loss, learning_rate = self._trainer.step(self._progress())
                window.add(loss)
                self._seconds = monotonic() - began
                used_up = self._progress() >= 1.0
                judged = used_up or self._trainer.step_count % self._config.validate_every == 0
                if judged or self._trainer.step_count % _LOG_STEPS == 0:
                    row = window.close(self._numbers())
                    self._log.add({**self._numbers(), "learning_rate": learning_rate, **row})
                    self._show(bar, row)
                if judged:
                    self._judge()
                    self._seconds = monotonic() - began
                    self._finished = used_up or self._is_stale()
                if judged or self._seconds - saved >= 60 * self._config.save_minutes:
                    self._save()
                    saved = self._seconds

    def _progress(self) -> float:
        if self._config.steps is not None:
            return self._trainer.step_count / self._config.steps
        assert self._config.minutes is not None
        return self._seconds / (60 * self._config.minutes)

    def _numbers(self) -> dict[str, float]:
        trainer = self._trainer
        return {
            "step": trainer.step_count,
            "epoch": trainer.epoch_number,
            "minutes": self._seconds / 60,
            "tokens": trainer.token_count,
        }

    def _show(self, bar: tqdm[Any], row: Mapping[str, float]) -> None:
        shown = {"loss": f"{row['loss']:.3f}", "tokens/s": f"{row['tokens_per_second']:.0f}"}
        if self._best is not None:
            shown["accuracy"] = f"{100 * self._best.token_accuracy:.2f} %"
        bar.set_postfix(shown, refresh=False)
        bar.update(min(100.0, 100 * self._progress()) - bar.n)

    def _judge(self) -> None:
        """Validate, and write the model if it is the best so far."""
        validation = self._validate(self._trainer.averaged)
        self._validation_log.add({**self._numbers(), **asdict(validation)})
        if self._best is None or validation.token_accuracy > self._best.token_accuracy:
            self._best = validation
            self._worse_count = 0
            self._write_model()
        else:
            self._worse_count += 1

    def _is_stale(self) -> bool:
        return self._config.patience is not None and self._worse_count >= self._config.patience

    def _write_model(self) -> None:
        assert self._best is not None
        averaged = self._trainer.averaged
        weights = {name: weight.cpu() for name, weight in averaged.state_dict().items()}
        spec: ModelSpec = averaged.spec
        card = write_card(
            self._output.name, spec, self._data.description, self._numbers(), self._best
        )
        checkpoints.write(
            Checkpoint(spec, weights, self._data.vocabulary, self._ngram, card),
            self._output / "model",
            overwrite=True,
            shard_bytes=self._shard_bytes,
        )

    @cached_property
    def _ngram(self) -> bytes:
        """What the model's drafter knows of targets; a part of a large table tells it enough."""
        pairs = self._data.train.spread(_NGRAM_PAIRS).pairs()
        return build_ngram(self._data.vocabulary, pairs)

    def _save(self) -> None:
        state = {
            "config": self._config.to_json(),
            "data": _fingerprint(self._data),
            "trainer": self._trainer.state(),
            "seconds": self._seconds,
            "best": None if self._best is None else asdict(self._best),
            "worse_count": self._worse_count,
        }
        path = self._output / _STATE
        torch.save(state, _unfinished(path))
        os.replace(_unfinished(path), path)

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Go back to what `_save` wrote; more budget or patience than it had can be used."""
        self._trainer.restore(stored["trainer"])
        self._seconds = stored["seconds"]
        self._best = None if stored["best"] is None else Validation(**stored["best"])
        self._worse_count = stored["worse_count"]
        self._finished = self._progress() >= 1.0 or self._is_stale()


class _Window:
    """The steps since the last row of the log."""

    def __init__(self, token_count: int, seconds: float) -> None:
        self._losses: list[Tensor] = []
        self._token_count = token_count
        self._seconds = seconds

    def add(self, loss: Tensor) -> None:
        """Count a step, without waiting for its loss."""
        self._losses.append(loss)

    def close(self, now: Mapping[str, float]) -> dict[str, float]:
        """Give mean loss and speed, and begin anew. Raises TrainingError."""
        loss = float(torch.stack(self._losses).mean())
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss} at step {now['step']}: try a lower learning_rate"
            )
        tokens, seconds = int(now["tokens"]), 60 * now["minutes"]
        speed = (tokens - self._token_count) / max(seconds - self._seconds, 1e-9)
        self._losses, self._token_count, self._seconds = [], tokens, seconds
        return {"loss": loss, "tokens_per_second": speed}
