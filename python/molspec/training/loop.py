"""The training loop: steps, validations, saved states, the model written."""

from __future__ import annotations

import logging
import math
import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from molspec.checkpoints import Checkpoint
from molspec.model.random_numbers import kept_random_numbers
from molspec.model.transformer import Transformer
from molspec.training.batches import Batches
from molspec.training.config import TrainConfig
from molspec.training.folder import Folder
from molspec.training.prepared import Prepared, read_together
from molspec.training.signals import noted_signals
from molspec.training.torchrun import Ranks, joined
from molspec.training.trainer import ModelTrainer
from molspec.training.validation import Decode, Validation, Validator

_log = logging.getLogger("molspec.training")

#: Steps between two readings of the loss: a GPU does not wait in between.
_LOG_STEPS = 50
#: Seconds between two lines of progress, if there is no bar.
_REPORT_SECONDS = 60
#: Optimiser steps before a model's answers are SMILES at all.
_FEW_STEPS = 200
#: Steps after which it is known how many more the minutes allow.
_PACE_STEPS = 5
_MORE_STEPS = "take more minutes, smaller batch_tokens or a smaller model"


class TrainingError(RuntimeError):
    """A training that cannot continue; the message has the reason."""


@dataclass(frozen=True)
class Beginning:
    """The start of a training.

    fingerprint: of the weights that the model begins with, if they are not random.
    """

    config: TrainConfig
    start: Checkpoint | None
    fingerprint: str | None
    anyway: bool = True
    ngram: bool = True

    def model(self, data: Prepared) -> Transformer:
        """The model to train: the seed decides new weights and dropout.

        Raises ValueError if it does not fit the data.
        """
        config, start, vocabulary = self.config, self.start, data.vocabulary
        if start is not None:
            self._check(start, data)
        torch.manual_seed(config.seed)
        spec = config.spec(vocabulary.size) if start is None else start.spec
        model = Transformer(spec, config.dropout, vocabulary.pad_id)
        if start is not None:
            weights = {name: weight.float() for name, weight in start.weights.items()}
            model.load_state_dict(weights)
        return model

    def _check(self, start: Checkpoint, data: Prepared) -> None:
        if self.config.model:
            raise ValueError("config.model is given with start, whose sizes stay: leave it out")
        data.check_model(start.vocabulary, start.task, "start")


@dataclass(frozen=True)
class Outcome:
    """The result of a training. `best` is the validation of the model in `model`."""

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
    threads: int | None = None,
    anyway: bool = True,
    ngram: bool = True,
) -> Outcome:
    """Train a model on the folder `prepared` and write it to `output`/model.

    prepared: one folder or several. All their training pairs are used, and the validation pairs of
        the first. They must have one task and one vocabulary, and train on no validation pair of
        the first.
    output: if it has the same training, interrupted, that resumes from its last saved state. After
        the same number of steps, its weights have the same bits on a CPU as without interruption.
    start: a model to train further. It must have the vocabulary of the data; its sizes stay.
    device: by default "cuda" if there is one, otherwise "cpu".
    decode: called with the model at each validation, to measure top-1.
    threads: torch's on the CPU; its own number if not given.
    anyway: train a new model even if the minutes are too few to learn from; otherwise ValueError
        after the first steps.
    ngram: give the model an n-gram model for drafts. Without, and if `decode` is None, training
        needs neither RDKit nor the package's compiled part.

    The logger "molspec.training" reports where it resumes and its progress (INFO), and a budget of
    minutes that is too small (WARNING). If one process trains, SIGINT and SIGTERM end it after the
    step, with its state saved.

    Processes that torchrun started train together, each on its own GPU or all on the CPU. Call it
    in each with the same arguments. The first decodes and writes; all return the outcome.

    Raises ValueError if settings, data or folder do not fit. Raises TrainingError if the loss is
    not a number, LostProcessError if another process has ended, OSError if a file cannot be
    written.
    """
    fingerprint = None if start is None else start.fingerprint()
    anyway = anyway or start is not None
    beginning = Beginning(config, start, fingerprint, anyway=anyway, ngram=ngram)
    return run_training(prepared, output, beginning, device, decode, threads)


def run_training(
    prepared: str | Path | Sequence[str | Path],
    output: str | Path,
    beginning: Beginning,
    device: str | None,
    decode: Decode | None,
    threads: int | None,
) -> Outcome:
    """Train in all processes; arguments as for `train`."""
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}: expected at least 1")
    with joined() as processes, kept_random_numbers():
        with processes.lead_first():
            data = read_together([prepared] if isinstance(prepared, str | Path) else prepared)
            training = _Training(beginning, data, Path(output), processes, device, decode)
        processes.check_same(config=beginning.config, data=data.fingerprint)
        threads_before = torch.get_num_threads()
        if threads is not None:
            torch.set_num_threads(threads)
        # cuDNN plans attention anew for every shape, and a pass has hundreds.
        cudnn_before = torch.backends.cuda.cudnn_sdp_enabled()
        torch.backends.cuda.enable_cudnn_sdp(False)
        try:
            return training.run()
        finally:
            torch.set_num_threads(threads_before)
            torch.backends.cuda.enable_cudnn_sdp(cudnn_before)


class _Training:
    """A trainer with its clock, its validations and its folder.

    All processes decide alike, since they see the lead's clock and validations.
    """

    def __init__(
        self,
        beginning: Beginning,
        data: Prepared,
        output: Path,
        processes: Ranks,
        device: str | None,
        decode: Decode | None,
    ) -> None:
        self._config = config = beginning.config
        self._anyway = beginning.anyway
        model = beginning.model(data)
        self._folder = Folder(output, config, data, beginning.fingerprint, beginning.ngram)
        self._device = processes.device(device)
        self._data, self._processes = data, processes
        shared = (model.spec, data.vocabulary)
        batches = Batches(data.train, *shared, config.batch_tokens, self._device)
        self._trainer = ModelTrainer(model, batches, config, self._device, processes)
        self._validate = Validator(data.validation, *shared, config, self._device, decode)
        #: The best validation, and the number of validations since.
        self._best: Validation | None = None
        self._worse_count = 0
        #: The clock, and its time at the last line of progress.
        self._seconds = self._reported = 0.0
        #: The time after the first step, which allocates memory.
        self._first = 0.0

    def run(self) -> Outcome:
        """Train until the budget is used up or nothing improves."""
        stored = self._processes.from_lead(self._open)
        self._restore(stored)
        if not self._is_finished:
            if self._trainer.step_count:
                self._report(f"{self._folder.path}: resumed at {self._place()}")
            self._loop()
        assert self._best is not None
        steps = self._trainer.step_count
        if self._config.minutes is not None and steps < _FEW_STEPS:
            self._report(f"{steps} steps are too few to learn from: {_MORE_STEPS}", logging.WARNING)
        counts = (steps, self._trainer.token_count)
        return Outcome(self._folder.model, self._best, *counts, self._seconds / 60)

    def _report(self, message: str, level: int = logging.INFO) -> None:
        if self._processes.is_lead:
            _log.log(level, message)

    def _place(self) -> str:
        budget = f" of {self._config.steps}" if self._config.steps else ""
        return f"step {self._trainer.step_count}{budget}, {self._seconds / 60:.1f} minutes"

    def _check_pace(self) -> None:
        """Raise ValueError after the first steps if the minutes allow too few, unless wanted."""
        minutes, steps = self._config.minutes, self._trainer.step_count
        if steps == 1:
            self._first = self._seconds
        if self._anyway or minutes is None or steps != _PACE_STEPS:
            return
        pace = (self._seconds - self._first) / (steps - 1)
        steps += int((60 * minutes - self._seconds) / pace)
        if steps < _FEW_STEPS:
            raise ValueError(
                f"{minutes:g} minutes are about {steps} steps here, too few to learn from nothing: "
                f"--start retro (or product) trains a model further; or {_MORE_STEPS}; --anyway "
                "trains nevertheless"
            )

    def _open(self) -> dict[str, Any]:
        """Open the folder: a new one gets a first state, from which the training can resume."""
        if self._folder.is_new():
            self._save()
        stored = self._folder.load()
        if not self._folder.model.exists():
            stored["best"] = None  # the next validation writes it
        self._folder.open_logs(stored["trainer"]["step_count"])
        return stored

    def _loop(self) -> None:
        began = monotonic() - self._seconds
        saved = self._seconds
        losses: list[Tensor] = []
        self._logged = self._numbers()
        signalled = False
        with noted_signals(self._processes.count) as received, self._bar() as bar:
            while not (self._is_finished or signalled):
                loss, learning_rate = self._trainer.step(self._progress())
                self._look_at_clock(began)
                judged = (
                    self._progress() >= 1.0
                    or self._trainer.step_count % self._config.validate_every == 0
                )
                if self._processes.is_lead:
                    self._check_pace()
                    losses.append(loss)
                    if judged or self._trainer.step_count % _LOG_STEPS == 0:
                        self._show(bar, self._log_row(losses, learning_rate))
                        losses.clear()
                if judged:
                    self._judge()
                    self._look_at_clock(began)
                signalled = bool(received)
                if judged or signalled or self._seconds - saved >= 60 * self._config.save_minutes:
                    if self._processes.is_lead:
                        self._check_loss(float(loss))  # the state before may be resumed
                        self._save()
                    saved = self._seconds
        if signalled and not self._is_finished:
            name = signal.Signals(received[0]).name
            self._report(f"{name}: stopped at {self._place()}; the same command resumes there")
            signal.raise_signal(received[0])
            raise KeyboardInterrupt  # if a handler of the caller has ignored the signal

    def _look_at_clock(self, began: float) -> None:
        self._seconds = self._processes.from_lead(lambda: monotonic() - began)

    def _progress(self) -> float:
        return self._config.share_used(self._trainer.step_count, self._seconds)

    @property
    def _is_finished(self) -> bool:
        if self._best is None:  # a budget that was made smaller may be used up before a validation
            return False
        patience = self._config.patience
        return self._progress() >= 1.0 or (patience is not None and self._worse_count >= patience)

    def _numbers(self) -> dict[str, float]:
        trainer = self._trainer
        return {
            "step": trainer.step_count,
            "epoch": trainer.epoch_number,
            "minutes": self._seconds / 60,
            "tokens": trainer.token_count,
        }

    def _check_loss(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss} at step {self._trainer.step_count}: try a lower learning_rate"
            )

    def _log_row(self, losses: list[Tensor], learning_rate: float) -> dict[str, float]:
        """Log the steps since the last row; waits for their losses. Raises TrainingError."""
        loss = float(torch.stack(losses).mean())
        self._check_loss(loss)
        before, now = self._logged, self._numbers()
        seconds = 60 * (now["minutes"] - before["minutes"])
        speed = (now["tokens"] - before["tokens"]) / max(seconds, 1e-9)
        row = {**now, "learning_rate": learning_rate, "loss": loss, "tokens_per_second": speed}
        self._folder.log.add(row)
        self._logged = now
        return row

    def _bar(self) -> tqdm[Any]:
        form = "{l_bar}{bar}| {elapsed}{postfix}"
        hidden = None if self._processes.is_lead else True  # None: only without a terminal
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
        self._check_loss(validation.loss)
        better = self._best is None or validation.token_accuracy > self._best.token_accuracy
        if better:
            self._best = validation
        self._worse_count = 0 if better else self._worse_count + 1
        if self._processes.is_lead:
            self._folder.validation_log.add({**self._numbers(), **asdict(validation)})
            if better:
                self._folder.write_model(averaged, self._numbers(), validation)

    def _save(self) -> None:
        self._folder.save(
            {
                "trainer": self._trainer.state(),
                "seconds": self._seconds,
                "best": None if self._best is None else asdict(self._best),
                "worse_count": self._worse_count,
            }
        )

    def _restore(self, stored: Mapping[str, Any]) -> None:
        """Restore a state of `_save`; budget and patience may be larger than before."""
        self._trainer.restore(stored["trainer"])
        self._seconds = stored["seconds"]
        self._best = None if stored["best"] is None else Validation(**stored["best"])
        self._worse_count = stored["worse_count"]
        self._reported = self._seconds
