"""The training loop: steps, validations, saved states, the model written."""

from __future__ import annotations

import logging
import math
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from molspec import checkpoints
from molspec.checkpoints import Checkpoint
from molspec.model.transformer import Transformer
from molspec.training.batches import Batches
from molspec.training.config import TrainConfig
from molspec.training.folder import Folder, has_state, read_state
from molspec.training.prepared import Prepared, read_together
from molspec.training.processes import Processes, joined
from molspec.training.trainer import ModelTrainer, learning_rate_factor, new_model
from molspec.training.validation import Decode, Validation, Validator

_log = logging.getLogger("molspec.training")

#: Steps between two looks at the loss: a GPU does not wait in between.
_LOG_STEPS = 50
#: Seconds between two lines that say how far it is, where no bar does.
_REPORT_SECONDS = 60
#: Optimiser steps that a model takes before its answers are SMILES at all.
FEW_STEPS = 200
_MORE_STEPS = "take more minutes or steps, smaller batch_tokens or a smaller model"


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
    prepared: str | Path | Sequence[str | Path],
    output: str | Path,
    config: TrainConfig,
    *,
    start: Checkpoint | None = None,
    device: str | None = None,
    decode: Decode | None = None,
    shard_bytes: int | None = None,
    threads: int | None = None,
) -> Outcome:
    """Train a model on the folder `prepared` and write it to `output`/model.

    Of several folders all training pairs are taken, and the validation pairs of the first; they
    must have one task and one vocabulary, and train on no validation pair of the first.

    Where `output` holds the same training, interrupted, it goes on from its last saved state:
    after a number of steps its weights are the same to the bit on a CPU as if it had never
    stopped. `start` is a model to train further: its vocabulary must be that of the data, its
    sizes are kept. `device` is "cuda" where there is one, otherwise "cpu". `decode` is called with
    the model at each validation to measure top-1. `shard_bytes` bounds the files of the weights.
    `threads` is torch's on the CPU; where it is not given, a training that is gone on with takes
    those that it had, and a new one as many of torch's as are measured to be fast. The logger
    "molspec.training" says where it resumes and how far it is (INFO), and where the minutes are too
    few to learn anything (WARNING). SIGINT and SIGTERM end it after the step, its
    state saved, where one process trains.

    Processes that torchrun started train together, each on a GPU of its own or all on the CPU:
    call it in each with the same arguments. The first decodes and writes, all have the outcome.

    Raises ValueError where settings, data or folder do not go together, TrainingError where the
    loss is no number any more, LostProcessError where another process has ended, OSError where a
    file cannot be written.
    """

    def begin(data: Prepared) -> _Beginning:
        fingerprint = None if start is None else start.fingerprint()
        return _Beginning(config, _model(data, config, start), fingerprint)

    return _train(prepared, output, begin, device, decode, shard_bytes, threads)


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
    own = read_state(output) if has_state(output) else None
    if own is None:
        config = _cooldown_config(TrainConfig.from_json(state["config"]), state, share, steps)
    else:
        config = TrainConfig.from_json(own["config"])
        if config.schedule != "cooldown":
            raise ValueError(f"output is {output}: it holds a training that is no cooldown")

    def begin(data: Prepared) -> _Beginning:
        start = checkpoints.read(run / "model")
        return _Beginning(
            config, _model(data, replace(config, model={}), start), state["start"], state
        )

    return _train(prepared, output, begin, device, decode, shard_bytes, threads)


def _cooldown_config(
    config: TrainConfig, state: Mapping[str, Any], share: float, steps: int | None
) -> TrainConfig:
    taken = state["trainer"]["step_count"]
    used = _share_used(config, taken, state["seconds"])
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


@dataclass(frozen=True)
class _Beginning:
    """How a training begins: of a cooldown with the state of another training."""

    config: TrainConfig
    model: Transformer
    start: str | None
    state: dict[str, Any] | None = None


def _train(
    prepared: str | Path | Sequence[str | Path],
    output: str | Path,
    begin: Callable[[Prepared], _Beginning],
    device: str | None,
    decode: Decode | None,
    shard_bytes: int | None,
    threads: int | None,
) -> Outcome:
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}: expected at least 1")
    with joined() as processes:
        with processes.lead_first():
            folders = [prepared] if isinstance(prepared, str | Path) else prepared
            data = read_together(folders)
            beginning = begin(data)
            config = beginning.config
            folder = Folder(Path(output), config, data, beginning.start, shard_bytes)
            chosen = processes.device(device)
            training = _Training(data, folder, beginning, chosen, decode, processes)
        processes.check_same(config=config, data=data.fingerprint)
        before = torch.get_num_threads()
        try:
            return training.run(threads)
        finally:
            torch.set_num_threads(before)


def _model(data: Prepared, config: TrainConfig, start: Checkpoint | None) -> Transformer:
    pad_id = data.vocabulary.pad_id
    if start is None:
        return new_model(config.spec(data.vocabulary.size), config, pad_id)
    if config.model:
        raise ValueError("config.model is given with start: its sizes are kept, leave them out")
    task = data.description["task"]
    if start.task not in (None, task):
        raise ValueError(f"start is a model of the task {start.task!r}: the data are of {task!r}")
    if start.vocabulary != data.vocabulary:
        raise ValueError("start has another vocabulary: prepare the data with start's vocabulary")
    model = new_model(start.spec, config, pad_id)
    model.load_state_dict({name: weight.float() for name, weight in start.weights.items()})
    return model


def _share_used(config: TrainConfig, steps: int, seconds: float) -> float:
    """Share of the budget that so many steps, or seconds, are."""
    if config.steps is not None:
        return steps / config.steps
    assert config.minutes is not None
    return seconds / (60 * config.minutes)


class _Training:
    """A trainer with its clock, its validations and its folder.

    Every process decides the same, as all see the lead's clock and validations.
    """

    def __init__(
        self,
        data: Prepared,
        folder: Folder,
        beginning: _Beginning,
        device: torch.device,
        decode: Decode | None,
        processes: Processes,
    ) -> None:
        config, model = beginning.config, beginning.model
        self._folder, self._config, self._processes = folder, config, processes
        self._data, self._state = data, beginning.state
        shared = (model.spec, data.vocabulary)
        batches = Batches(data.train, *shared, config.batch_tokens, device)
        self._trainer = ModelTrainer(model, batches, config, device, processes)
        self._validate = Validator(data.validation, *shared, config, device, decode)
        self._seconds = 0.0
        self._reported = 0.0
        self._best: Validation | None = None
        self._worse_count = 0
        self._finished = False
        self._device = device
        #: Of torch on the CPU: sums depend on their number. None before they are chosen.
        self._threads: int | None = None

    def run(self, threads: int | None) -> Outcome:
        """Train until the budget is used up or nothing improves."""
        stored = self._processes.from_lead(self._open)
        self._restore(stored)
        if not self._finished:
            if self._trainer.step_count:
                self._report(f"{self._folder.path}: resumed at {self._place()}")
            self._trainer.warm_up()
            self._choose_threads(threads or stored.get("threads"))
            self._loop()
        assert self._best is not None
        steps = self._trainer.step_count
        if self._config.minutes is not None and steps < FEW_STEPS:
            self._report(f"{steps} steps are too few to learn from: {_MORE_STEPS}", logging.WARNING)
        counts = (steps, self._trainer.token_count)
        return Outcome(self._folder.model, self._best, *counts, self._seconds / 60)

    def _report(self, message: str, level: int = logging.INFO) -> None:
        if self._processes.is_lead:
            _log.log(level, message)

    def _place(self) -> str:
        budget = f" of {self._config.steps}" if self._config.steps else ""
        return f"step {self._trainer.step_count}{budget}, {self._seconds / 60:.1f} minutes"

    def _choose_threads(self, threads: int | None) -> None:
        """Take so many on the CPU; by default those that are fast."""
        if threads is not None:
            torch.set_num_threads(threads)
        elif self._device.type == "cpu" and self._processes.count == 1:
            seconds = self._trainer.choose_threads()
            if self._config.minutes is not None:
                steps = int((60 * self._config.minutes - self._seconds) / seconds)
                if self._trainer.step_count + steps < FEW_STEPS:
                    self._report(
                        f"{self._config.minutes:g} minutes are about {steps} steps here, too few "
                        f"to learn from: {_MORE_STEPS}",
                        logging.WARNING,
                    )
        self._threads = torch.get_num_threads()

    def _open(self) -> dict[str, Any]:
        """Open the folder: a new one begins with a state, as a training that can go on."""
        if self._folder.is_new():
            if self._state is not None:
                is_same_data = self._state["data"] == self._data.fingerprint
                self._trainer.branch(self._state["trainer"], is_same_data)
            self._save()
        stored = self._folder.load()
        self._folder.open_logs(stored["trainer"]["step_count"])
        return stored

    def _loop(self) -> None:
        began = monotonic() - self._seconds
        saved = self._seconds
        signalled: int | None = None
        window = _Window(self._trainer.token_count, self._seconds)
        with _Signals(self._processes.count) as signals, self._bar() as bar:
            while not (self._finished or signalled):
                loss, learning_rate = self._trainer.step(self._progress())
                self._look_at_clock(began)
                used_up = self._progress() >= 1.0
                judged = used_up or self._trainer.step_count % self._config.validate_every == 0
                if self._processes.is_lead:
                    window.add(loss)
                    if judged or self._trainer.step_count % _LOG_STEPS == 0:
                        row = window.close(self._numbers())
                        row = {**self._numbers(), "learning_rate": learning_rate, **row}
                        self._folder.log.add(row)
                        self._show(bar, row)
                if judged:
                    self._judge()
                    self._look_at_clock(began)
                    self._finished = used_up or self._is_stale()
                signalled = signals.received
                if judged or signalled or self._seconds - saved >= 60 * self._config.save_minutes:
                    if self._processes.is_lead:
                        self._save()
                    saved = self._seconds
        if signalled and not self._finished:
            name = signal.Signals(signalled).name
            self._report(f"{name}: stopped at {self._place()}; the same command resumes there")
            signal.raise_signal(signalled)
            raise KeyboardInterrupt  # where a handler of the caller lets it continue

    def _look_at_clock(self, began: float) -> None:
        self._seconds = self._processes.from_lead(lambda: monotonic() - began)

    def _progress(self) -> float:
        return _share_used(self._config, self._trainer.step_count, self._seconds)

    def _numbers(self) -> dict[str, float]:
        trainer = self._trainer
        return {
            "step": trainer.step_count,
            "epoch": trainer.epoch_number,
            "minutes": self._seconds / 60,
            "tokens": trainer.token_count,
        }

    def _bar(self) -> tqdm[Any]:
        form = "{l_bar}{bar}| {elapsed}{postfix}"
        hidden = None if self._processes.is_lead else True  # None: where there is no terminal
        return tqdm(total=100, unit="%", disable=hidden, bar_format=form)

    def _show(self, bar: tqdm[Any], row: Mapping[str, float]) -> None:
        shown = {"loss": f"{row['loss']:.3f}", "tokens/s": f"{row['tokens_per_second']:.0f}"}
        if self._best is not None:
            shown["accuracy"] = f"{100 * self._best.token_accuracy:.2f} %"
        if bar.disable and self._seconds - self._reported >= _REPORT_SECONDS:
            self._reported = self._seconds
            texts = (f"{name} {value}" for name, value in shown.items())
            self._report(f"{self._place()}: {', '.join(texts)}")
        bar.set_postfix(shown, refresh=False)
        bar.update(min(100.0, 100 * self._progress()) - bar.n)

    def _judge(self) -> None:
        """Validate, and write the model if it is the best so far."""
        averaged = self._trainer.averaged
        validation = self._processes.from_lead(lambda: self._validate(averaged))
        better = self._best is None or validation.token_accuracy > self._best.token_accuracy
        if better:
            self._best = validation
        self._worse_count = 0 if better else self._worse_count + 1
        if self._processes.is_lead:
            self._folder.validation_log.add({**self._numbers(), **asdict(validation)})
            if better:
                self._folder.write_model(averaged, self._numbers(), validation)

    def _is_stale(self) -> bool:
        return self._config.patience is not None and self._worse_count >= self._config.patience

    def _save(self) -> None:
        self._folder.save(
            {
                "trainer": self._trainer.state(),
                "seconds": self._seconds,
                "best": None if self._best is None else asdict(self._best),
                "worse_count": self._worse_count,
                "threads": self._threads,
            }
        )

    def _restore(self, stored: Mapping[str, Any]) -> None:
        """Go back to what `_save` wrote; more budget or patience than it had can be used."""
        self._trainer.restore(stored["trainer"])
        self._seconds = stored["seconds"]
        self._best = None if stored["best"] is None else Validation(**stored["best"])
        self._worse_count = stored["worse_count"]
        self._threads = stored.get("threads")
        self._reported = self._seconds
        self._finished = self._progress() >= 1.0 or self._is_stale()


class _Signals:
    """Notes SIGINT and SIGTERM, so that a step ends whole; a second one interrupts at once.

    Not where several processes train: torchrun ends those so that have lost another one.
    """

    def __init__(self, process_count: int) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}
        is_main = threading.current_thread() is threading.main_thread()  # no other sets handlers
        self._noted = (signal.SIGINT, signal.SIGTERM) if is_main and process_count == 1 else ()

    def __enter__(self) -> _Signals:
        for number in self._noted:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: object) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = number


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
