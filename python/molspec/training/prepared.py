"""Prepared data: a folder with tokenised pairs, their vocabulary and a description.

prepared.json           {"format": "molspec-prepared", "format_version": 1, ...}: the description
vocabulary.json         the fields of Vocabulary
train.safetensors       pairs, see EncodedPairs
validation.safetensors  pairs
rejected.tsv            every row without a pair: file, row, split, reason, reaction
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from molspec.checkpoints.files import check_format, read_object
from molspec.common.console import prefixing
from molspec.text import Vocabulary

FORMAT, VERSION = "molspec-prepared", 1
SPLITS = ("train", "validation")
_DESCRIBING = ("prepared.json", "vocabulary.json")
#: The file that is written last.
LAST = _DESCRIBING[0]
#: Tokens whose ids are int16.
MOST_TOKENS = 1 << 15
_Ids: TypeAlias = Sequence[int] | np.ndarray


@dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Token ids of pairs, packed end to end, without BOS and EOS.

    source_ids and target_ids are int16; source_lengths and target_lengths int32, one a pair.
    """

    source_ids: Tensor
    source_lengths: Tensor
    target_ids: Tensor
    target_lengths: Tensor

    def __len__(self) -> int:
        return len(self.source_lengths)

    @classmethod
    def pack(cls, pairs: Iterable[tuple[_Ids, _Ids]]) -> EncodedPairs:
        """Pack pairs of (source ids, target ids)."""
        sources, targets = zip(*pairs, strict=True) if (pairs := list(pairs)) else ((), ())
        return cls(*_flatten(sources), *_flatten(targets))

    @classmethod
    def join(cls, tables: Sequence[EncodedPairs]) -> EncodedPairs:
        """All pairs of the tables, one table after the other."""
        columns = zip(*(vars(table).values() for table in tables), strict=True)
        return cls(*map(torch.cat, columns))

    def spread(self, count: int) -> EncodedPairs:
        """At most `count` of the pairs, evenly spread over the table."""
        chosen = np.linspace(0, len(self) - 1, min(count, len(self))).round().astype(int)
        return EncodedPairs.pack(self._rows(chosen))

    def without(self, others: EncodedPairs) -> EncodedPairs:
        """The pairs that are not in `others`."""
        had = set(others.as_bytes())
        pairs = zip(self._rows(), self.as_bytes(), strict=True)
        return EncodedPairs.pack(pair for pair, key in pairs if key not in had)

    def counts(self) -> dict[str, int]:
        """Numbers of pairs and tokens, and the most tokens of a source and of a target."""
        return {
            "pairs": len(self),
            "tokens": len(self.source_ids) + len(self.target_ids),
            "longest_source": max(self.source_lengths.tolist(), default=0),
            "longest_target": max(self.target_lengths.tolist(), default=0),
        }

    def pairs(self) -> list[tuple[list[int], list[int]]]:
        """All pairs of (source ids, target ids)."""
        return [(source.tolist(), target.tolist()) for source, target in self._rows()]

    def as_bytes(self) -> Iterator[tuple[bytes, bytes]]:
        """All pairs of (source ids, target ids), as hashable bytes."""
        return ((source.tobytes(), target.tobytes()) for source, target in self._rows())

    def _rows(
        self, chosen: slice | np.ndarray = slice(None)
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The pairs at some indices of the table, by default all."""
        sources = _cut(self.source_ids.numpy(), self.source_lengths.numpy(), chosen)
        targets = _cut(self.target_ids.numpy(), self.target_lengths.numpy(), chosen)
        return zip(sources, targets, strict=True)


def _cut(ids: np.ndarray, lengths: np.ndarray, chosen: slice | np.ndarray) -> Iterator[np.ndarray]:
    ends = lengths.cumsum(dtype=np.int64)[chosen]
    return (ids[end - length : end] for end, length in zip(ends, lengths[chosen], strict=True))


def _flatten(rows: Sequence[_Ids]) -> tuple[Tensor, Tensor]:
    lengths = np.array([len(row) for row in rows], dtype=np.int32)
    ids = np.fromiter((index for row in rows for index in row), np.int16, int(lengths.sum()))
    return torch.from_numpy(ids), torch.from_numpy(lengths)


@dataclass(frozen=True, eq=False)
class Prepared:
    """The data of a training: `description` is prepared.json without its format."""

    vocabulary: Vocabulary
    train: EncodedPairs
    validation: EncodedPairs
    description: dict[str, Any]

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits of the pairs, the vocabulary and the task."""
        values = [self.description["task"], self.vocabulary.to_json()]
        return digest(self.train, self.validation, start=json.dumps(values, sort_keys=True))

    def check_model(self, vocabulary: Vocabulary, task: str | None, name: str) -> None:
        """Raise ValueError, naming the model, if its task or vocabulary differs."""
        own = self.description["task"]
        if task not in (None, own):
            raise ValueError(f"{name} is a model of the task {task!r}: the data are of {own!r}")
        if self.vocabulary != vocabulary:
            raise ValueError(
                f"{name} has another vocabulary than the data: prepare them with its vocabulary"
            )


def digest(*tables: EncodedPairs, start: str = "") -> str:
    """32 hexadecimal digits of a text and of the pairs of tables."""
    made = blake2b(start.encode(), digest_size=16)
    for table in tables:
        for column in vars(table).values():
            made.update(column.numpy())
    return made.hexdigest()


def write(prepared: Prepared, folder: Path) -> None:
    """Write `prepared` to the existing folder `folder`, `LAST` at the end."""
    for split in SPLITS:
        # Not save_file, which would make it unreadable to others.
        (folder / f"{split}.safetensors").write_bytes(save(vars(getattr(prepared, split))))
    header = {"format": FORMAT, "format_version": VERSION}
    described = (prepared.vocabulary.to_json(), {**header, **prepared.description})
    for name, values in zip(reversed(_DESCRIBING), described, strict=True):
        (folder / name).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


def read(folder: str | Path) -> Prepared:
    """Read a folder of prepared data. Raises ValueError, naming the fault, or OSError."""
    with prefixing(f"{folder}: "):
        return _read(Path(folder))


def _read(folder: Path) -> Prepared:
    if not (folder / LAST).is_file():
        raise ValueError(f"no prepared data in it, {LAST} is missing")
    description, vocabulary = (read_object(folder / name) for name in _DESCRIBING)
    check_format(LAST, description, FORMAT, VERSION)
    del description["format"], description["format_version"]
    if missing := sorted({"task", "files", "validation_files", *SPLITS} - description.keys()):
        raise ValueError(f"{LAST} does not say {', '.join(missing)}")
    for split in SPLITS:
        counted = description[split]
        if not isinstance(counted, dict) or not {"reactions", "pairs"} <= counted.keys():
            raise ValueError(f"{LAST} does not count the pairs of {split}")
    with prefixing(f"{_DESCRIBING[1]}: "):
        tokens = Vocabulary.from_json(vocabulary)
    files = (folder / f"{split}.safetensors" for split in SPLITS)
    train, validation = (_read_table(file, tokens.size) for file in files)
    return Prepared(tokens, train, validation, description)


def read_together(folders: Sequence[str | Path]) -> Prepared:
    """Read folders as one: the training pairs of all, the validation pairs of the first.

    Raises ValueError, naming the folder, if one has another task or vocabulary than the first
    or trains on validation pairs of the first; otherwise as `read` does.
    """
    if not folders:
        raise ValueError("folders is empty: expected at least one folder of prepared data")
    first, *others = parts = [read(folder) for folder in folders]
    if not others:
        return first
    held_out = set(first.validation.as_bytes())
    for folder, part in zip(folders[1:], others, strict=True):
        for name, own, expected in (
            ("task", part.description["task"], first.description["task"]),
            ("vocabulary", part.vocabulary, first.vocabulary),
        ):
            if own != expected:
                raise ValueError(f"{folder}: its {name} is not that of {folders[0]}")
        if count := sum(key in held_out for key in part.train.as_bytes()):
            raise ValueError(
                f"{folder}: {count} of its training pairs are validation pairs of {folders[0]}: "
                "prepare it with the same validation files"
            )
    train = EncodedPairs.join([part.train for part in parts])
    description = _description_together([part.description for part in parts])
    return Prepared(first.vocabulary, train, first.validation, description)


def _description_together(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first, trained = parts[0], [part["train"] for part in parts]
    train = {
        name: (max if name.startswith("longest") else sum)(counts[name] for counts in trained)
        for name in first["train"]
    }
    files = [name for part in parts for name in part["files"]]
    aligned = any(part.get("aligned", False) for part in parts)
    return {**first, "files": files, "train": train, "aligned": aligned, "parts": parts}


def _read_table(path: Path, vocab_size: int) -> EncodedPairs:
    damaged = f"{path.name} is damaged"
    with prefixing(f"{damaged}: ", ValueError, (SafetensorError, TypeError)):
        table = EncodedPairs(**load_file(path))
    if len(table.source_lengths) != len(table.target_lengths):
        raise ValueError(f"{damaged}: it has more sources than targets, or fewer")
    for side in ("source", "target"):
        ids, lengths = getattr(table, f"{side}_ids"), getattr(table, f"{side}_lengths")
        if any(each.dtype.is_floating_point for each in (ids, lengths)):
            raise ValueError(f"{damaged}: {side}s are not integers")
        if int(lengths.sum()) != len(ids) or bool((lengths < 0).any()):
            raise ValueError(f"{damaged}: {side}_lengths do not add up to {side}_ids")
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
            raise ValueError(f"{damaged}: {side}_ids are not all 0 to {vocab_size - 1}")
    return table
