"""A training's folder: its files, and how they are read and written.

config.json     the configuration
log.csv         loss and speed, every few steps
validation.csv  a row a validation
state.pt        everything that decides the next step; an interrupted training resumes from it
model/          a checkpoint: the averaged weights of the best validation
"""

import csv
import errno
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from molspec import checkpoints
from molspec.checkpoints import Checkpoint
from molspec.common.console import prefixing
from molspec.common.journal import check_same, open_alone, write_whole
from molspec.model.transformer import Transformer
from molspec.training.card import write_card
from molspec.training.config import TrainConfig
from molspec.training.prepared import Prepared
from molspec.training.validation import Validation

#: Pairs for the n-gram model that drafts.
_NGRAM_PAIRS = 60_000
#: Settings that may change when a training resumes: budget and bookkeeping.
_CHANGEABLE = ("minutes", "steps", "patience", "save_minutes", "decoded_pairs")
_STATE = "state.pt"
#: How to start a training again.
ANEW = "take another output folder to begin anew"
_NUMBERS = ("step", "epoch", "minutes", "tokens")
_MEASURED = ("learning_rate", "loss", "tokens_per_second")
_JUDGED = tuple(field.name for field in fields(Validation))


def read_state(file: Path) -> dict[str, Any]:
    """Read a saved state. Raises ValueError if it is damaged, OSError if it cannot be opened."""
    # Damage has errors of many kinds.
    with file.open("rb") as stream, prefixing(f"{file}: damaged: ", ValueError, Exception):
        stored: dict[str, Any] = torch.load(stream, "cpu", weights_only=True)
    if not isinstance(stored, dict):
        raise ValueError(f"{file}: damaged: it holds no saved state")
    return stored


def read_training(path: Path) -> dict[str, Any]:
    """Read the last saved state of the training of a model in a folder.

    Raises ValueError if it is damaged, or the state of a drafter's training.
    """
    stored = read_state(path / _STATE)
    if "config" not in stored:
        raise ValueError(f"{path} holds the training of a drafter: expected that of a model")
    return stored


def write_state(file: Path, state: Mapping[str, Any]) -> None:
    """Save a state, replacing the one before."""
    unfinished = _unfinished(file)
    try:
        torch.save(dict(state), unfinished)
    except RuntimeError as error:  # torch's error for a full disk
        unfinished.unlink(missing_ok=True)
        raise OSError(errno.EIO, f"cannot be written: {error}", str(file)) from error
    os.replace(unfinished, file)


def _unfinished(file: Path) -> Path:
    return file.with_name(f"{file.name}.unfinished")


class Folder:
    """The folder `path` of the training of `config` on `data`.

    `start` is the fingerprint of the model that is trained further. The model gets an n-gram model
    if `ngram`, which needs the package's compiled part.

    While its logs are open, no other process can open them.
    """

    def __init__(
        self, path: Path, config: TrainConfig, data: Prepared, start: str | None, ngram: bool
    ) -> None:
        self.path = path
        self.model = path / "model"
        self._state = path / _STATE
        self._config = config.to_json()
        self._data = data
        self._start = start
        self._build = _ngram_builder() if ngram else None
        self._ngram: bytes | None = None
        self._locked: Any = None

    def is_new(self) -> bool:
        """Whether there is no training yet. Raises ValueError if there is something else."""
        if self._state.exists():
            return False
        if self.path.exists() and set(self.path.iterdir()) - {_unfinished(self._state)}:
            raise ValueError(f"output is {self.path}: it holds something else than a training")
        return True

    def save(self, state: Mapping[str, Any]) -> None:
        """Save a state, replacing the one before."""
        self.path.mkdir(parents=True, exist_ok=True)
        own = {"config": self._config, "data": self._data.fingerprint, "start": self._start}
        write_state(self._state, {**own, **state})

    def load(self) -> dict[str, Any]:
        """Read the last saved state. Raises ValueError if it is another training's."""
        stored = read_training(self.path)
        holds = f"{self.path} holds a training"
        try:
            before = TrainConfig.from_json(stored["config"]).to_json()
        except ValueError as error:
            raise ValueError(f"{holds} of another version: {error}; {ANEW}") from error
        kept = {name: each for name, each in self._config.items() if name not in _CHANGEABLE}
        settings = {**kept, "data": self._data.fingerprint, "start": self._start}
        own = {"data": stored.get("data"), "start": stored.get("start")}
        check_same(settings, {**before, **own}, holds, ANEW)
        return stored

    def open_logs(self, step_count: int) -> None:
        """Write the configuration, and open `log` and `validation_log` at a step.

        Raises OSError, naming the file, if another training has them open.
        """
        file = self.path / "config.json"
        self._locked = open_alone(file, "ab")
        self._locked.truncate(0)
        write_whole(self._locked, json.dumps(self._config, indent=1).encode() + b"\n", str(file))
        self.log = CsvLog(self.path / "log.csv", _NUMBERS + _MEASURED, step_count)
        self.validation_log = CsvLog(self.path / "validation.csv", _NUMBERS + _JUDGED, step_count)

    def close(self) -> None:
        """Let other trainings open the logs."""
        if self._locked is not None:
            self._locked.close()

    def write_model(
        self, model: Transformer, numbers: Mapping[str, float], best: Validation
    ) -> None:
        """Write the checkpoint, replacing the one before."""
        if self._ngram is None and self._build is not None:
            # For drafting; a part of a large table is enough for it.
            pairs = self._data.train.spread(_NGRAM_PAIRS).pairs()
            self._ngram = self._build(self._data.vocabulary, pairs, start_id=model.spec.start_id)
        weights = {name: weight.cpu() for name, weight in model.state_dict().items()}
        told = self._data.description
        card = write_card(self.path.name, model.spec, told, numbers, best, self._start)
        checkpoint = Checkpoint(
            model.spec,
            weights,
            self._data.vocabulary,
            self._ngram,
            card,
            canonical_queries=True,  # every reaction is prepared and validated in canonical SMILES
            task=told["task"],
            aligned=told.get("aligned", False),
        )
        checkpoints.write(checkpoint, self.model, overwrite=True)


def _ngram_builder() -> Callable[..., bytes]:
    try:
        from molspec.drafting import build_ngram  # a GPU's machine may lack the compiled part
    except ImportError as error:
        raise ValueError(
            "ngram is true: expected false (--no-ngram) where the package's compiled part is "
            f"missing ({error})"
        ) from error
    return build_ngram


class CsvLog:
    """A CSV file with a column `step`, to which rows are appended.

    If a training resumes at `step_count`, later rows are dropped: a file with the others replaces
    the old one, so that they are never lost.
    """

    def __init__(self, path: Path, columns: tuple[str, ...], step_count: int) -> None:
        self._path = path
        self._columns = columns
        rows = []
        if path.exists():
            with path.open(encoding="utf-8", newline="") as stream:
                # A cell is None in a row that a kill left incomplete.
                whole = [row for row in csv.DictReader(stream) if None not in row.values()]
            rows = [row for row in whole if int(row["step"]) <= step_count]
        unfinished = _unfinished(path)
        with unfinished.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, columns)
            writer.writeheader()
            writer.writerows(rows)
        unfinished.rename(path)

    def add(self, row: Mapping[str, float | None]) -> None:
        """Write a row; None is an empty cell."""
        cells = {name: _cell(row[name]) for name in self._columns}
        with self._path.open("a", encoding="utf-8", newline="") as stream:
            csv.DictWriter(stream, self._columns).writerow(cells)


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
