"""The training loop: steps, validations, saved states, the model written."""

import logging
import math
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from molspec.checkpoints import Checkpoint
from molspec.model.random_numbers import kept_random_numbers
from molspec.model.transformer import Transformer
from molspec.training import fusing, signals, torchrun
from molspec.training.batches import Batches
from molspec.training.config import TrainConfig
from molspec.training.folder import Folder
from molspec.training.prepared import Prepared, read_together
from molspec.training.trainer import ModelTrainer
from molspec.training.validation import Decode, Validation, Validator

_log = logging.getLogger("molspec.training")

#: Steps between two readings of the loss: a GPU does not wait in between.
_LOG_STEPS = 50
#: Seconds between two lines of progress.
_REPORT_SECONDS = 30
#: Steps, or seconds, after which it is known how many more the budget allows.
_PACE_STEPS, _PACE_SECONDS = 5, 5.0


class TrainingError(RuntimeError):
    """A training that cannot continue; the message has the reason."""


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
    ngram: give the model an n-gram model for drafts. Without, and if `decode` is None, training
        needs neither RDKit nor the package's compiled part.

    The logger "molspec.training" reports where it resumes, how many steps to expect, and its
    progress. If one process trains, SIGINT and SIGTERM end it after the step, with its state saved.

    Processes that torchrun started train together, each on its own GPU or all on the CPU. Call it
    in each with the same arguments. The first decodes and writes; all return the outcome.

    Raises ValueError if settings, data or folder do not fit. Raises TrainingError if the loss is
    not a number, LostProcessError if another process has ended, OSError if a file cannot be
    written.
    """
    with torchrun.joined() as processes, kept_random_numbers(), _torch_settings(threads):
        with processes.lead_first():
            data = read_together([prepared] if isinstance(prepared, str | Path) else prepared)
            model, own = _model(config, start, data), processes.device(device)
            fingerprint = None if start is None else start.fingerprint()
            folder = Folder(Path(output), config, data, fingerprint, ngram)
            shared = (model.spec, data.vocabulary)
            batches = Batches(data.train, *shared, config.batch_tokens, own)
            trainer = ModelTrainer(model, batches, config, processes)
            if own.type == "cuda" and config.precision == "bfloat16":
                _log.info("fused kernels: %s", fusing.fuse(trainer.model))
            validate = Validator(data.validation, *shared, config, own, decode)
        processes.check_same(config=config, data=data.fingerprint)
        with closing(folder):
            return _Training(config, folder, trainer, validate, processes).run()


@contextmanager
def _torch_settings(threads: int | None) -> Iterator[None]:
    """Settings of torch during a training. Raises ValueError for less than one thread."""
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}: expected at least 1")
    before = torch.get_num_threads()
    # cuDNN plans attention anew for every shape, and a pass has hundreds.
    cudnn_before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.backends.cuda.enable_cudnn_sdp(cudnn_before)


def _model(config: TrainConfig, start: Checkpoint | None, data: Prepared) -> Transformer:
    """The model to train: the seed decides new weights and dropout.

    Raises ValueError if it does not fit the data.
    """
    vocabulary = data.vocabulary
    if start is not None:
        if config.model:
            raise ValueError("config.model is given with start, whose sizes stay: leave it out")
        data.check_model(start.vocabulary, start.task, "start")
    torch.manual_seed(config.seed)
    spec = config.spec(vocabulary.size) if start is None else start.spec
    model = Transformer(spec, config.dropout, vocabulary.pad_id)
    if start is not None:
        model.load_state_dict({name: weight.float() for name, weight in start.weights.items()})
    return model


class _Training:
    """A trainer with its clock, its validations and its folder.

    All processes decide alike, since they see the lead's clock and validations.
    """

    def __init__(
        self,
        config: TrainConfig,
        folder: Folder,
        trainer: ModelTrainer,
        validate: Validator,
        processes: torchrun.Ranks,
    ) -> None:
        self._config, self._folder, self._trainer = config, folder, trainer
        self._validate, self._processes = validate, processes
        #: The best validation, and the number of validations since.
        self._best: Validation | None = None
        self._worse_count = 0
        #: The clock, and its time at the last report.
        self._seconds = self._reported = 0.0
        #: The numbers after the first step, which allocates memory, until the pace is known.
        self._first: dict[str, float] | None = None

    def run(self) -> Outcome:
        """Train until the budget is used up or nothing improves."""
        self._restore(self._processes.from_lead(self._open))
        if not self._is_finished:
            if self._trainer.step_count:
                self._report(f"{self._folder.path}: resumed at {self._place()}")
            self._loop()
        assert self._best is not None
        steps, tokens = self._trainer.step_count, self._trainer.token_count
        return Outcome(self._folder.model, self._best, steps, tokens, self._seconds / 60)

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
        began, saved = monotonic() - self._seconds, self._seconds
        losses: list[Tensor] = []
        self._logged, signalled = self._numbers(), False
        is_paced = False
        with signals.noted_signals(self._processes.count) as received:
            while not (self._is_finished or signalled):
                loss, learning_rate = self._trainer.step(self._progress)
                losses.append(loss)
                if not is_paced:
                    float(loss)  # waits for a GPU, whose pace is measured
                self._seconds = self._processes.from_lead(lambda: monotonic() - began)
                steps = self._trainer.step_count
                is_paced = is_paced or self._tell_pace()
                is_judged = self._progress >= 1.0 or steps % self._config.validate_every == 0
                if is_judged or steps % _LOG_STEPS == 0:
                    self._log_steps(losses, learning_rate)
                    losses.clear()
                if is_judged:
                    self._judge()
                signalled = bool(received)
                late = self._seconds - saved >= 60 * self._config.save_minutes
                if is_judged or signalled or late:
                    saved = self._seconds
                    if self._processes.is_lead:
                        self._check_loss(float(loss))  # the state before may be resumed
                        self._save()
        if signalled and not self._is_finished:
            name = signal.Signals(received[0]).name
            self._report(f"{name}: stopped at {self._place()}; the same command resumes there")
            signal.raise_signal(received[0])
            raise KeyboardInterrupt  # if a handler of the caller has ignored the signal

    @property
    def _progress(self) -> float:
        return self._config.share_used(self._trainer.step_count, self._seconds)

    @property
    def _is_finished(self) -> bool:
        if self._best is None:  # a budget that was made smaller may be used up before a validation
            return False
        patience = self._config.patience
        return self._progress >= 1.0 or (patience is not None and self._worse_count >= patience)

    def _tell_pace(self) -> bool:
        """Report the pace after the first steps; return whether it is known."""
        now, limit = self._numbers(), self._config.minutes
        first = self._first = self._first or now
        taken, tokens, minutes = (now[name] - first[name] for name in ("step", "tokens", "minutes"))
        is_early = taken < _PACE_STEPS - 1 and 60 * minutes < _PACE_SECONDS
        if is_early or not taken:
            return False
        if limit is None:
            rest = ((self._config.steps or 0) - now["step"]) * minutes / taken
            expected = f"{self._config.steps} steps are about {rest:.1f} more minutes"
        else:
            steps = int(now["step"] + max(0.0, limit - now["minutes"]) * taken / max(minutes, 1e-9))
            expected = f"{limit:g} minutes are about {steps} steps here"
        self._report(f"{tokens / max(60 * minutes, 1e-9):.0f} tokens/s; {expected}")
        return True

    def _check_loss(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss} at step {self._trainer.step_count}: try a lower learning_rate"
            )

    def _numbers(self) -> dict[str, float]:
        trainer = self._trainer
        return {
            "step": trainer.step_count,
            "epoch": trainer.epoch_number,
            "minutes": self._seconds / 60,
            "tokens": trainer.token_count,
        }

    def _place(self) -> str:
        budget = f" of {self._config.steps}" if self._config.steps else ""
        return f"step {self._trainer.step_count}{budget}, {self._seconds / 60:.1f} minutes"

    def _report(self, message: str) -> None:
        if self._processes.is_lead:
            _log.info(message)

    def _log_steps(self, losses: list[Tensor], learning_rate: float) -> None:
        """Log the steps since the last row; waits for their losses. Raises TrainingError."""
        if not self._processes.is_lead:
            return
        loss = float(torch.stack(losses).mean())
        self._check_loss(loss)
        before, self._logged = self._logged, self._numbers()
        seconds = 60 * (self._logged["minutes"] - before["minutes"])
        speed = (self._logged["tokens"] - before["tokens"]) / max(seconds, 1e-9)
        row = {"learning_rate": learning_rate, "loss": loss, "tokens_per_second": speed}
        self._folder.log.add({**self._logged, **row})
        if self._seconds - self._reported >= _REPORT_SECONDS:
            self._reported, best = self._seconds, self._best
            known = "" if best is None else f", token accuracy {100 * best.token_accuracy:.2f} %"
            self._report(f"{self._place()}: loss {loss:.3f}, {speed:.0f} tokens/s{known}")

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
        self._seconds = self._reported = stored["seconds"]
        self._best = None if stored["best"] is None else Validation(**stored["best"])
        self._worse_count = stored["worse_count"]
