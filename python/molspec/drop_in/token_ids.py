"""Checks the token ids of `molspec.decode`; errors name the argument."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from molspec.common.fields import check_count

_LARGEST_ID = 2**31 - 1
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True)
class SpecialIds:
    """The special ids. Raises ValueError, naming a bad one."""

    pad_id: int
    bos_id: int
    eos_id: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, check_count(name, value, _LARGEST_ID, least=0))
        if self.pad_id == self.eos_id:  # removing a source's padding would remove its EOS
            raise ValueError(f"pad_id is {self.pad_id}, as eos_id is: expected another id")

    def check_vocab_size(self, vocab_size: int) -> None:
        """Raise ValueError for an id outside the target vocabulary."""
        for name, value in vars(self).items():
            if value >= vocab_size:
                raise ValueError(f"{name} is {value}: expected a target id, 0 to {vocab_size - 1}")


def read_sources(source_ids: Tensor | Sequence[Sequence[int]], pad_id: int) -> list[list[int]]:
    """Sources without their padding."""
    if isinstance(source_ids, Tensor):
        if source_ids.dim() != 2 or source_ids.dtype not in _WHOLE:
            raise ValueError(
                f"source_ids is a {source_ids.dtype} tensor of shape {tuple(source_ids.shape)}: "
                "expected whole numbers [batch, length]"
            )
        source_ids = source_ids.tolist()
    if not isinstance(source_ids, Iterable):
        kind = type(source_ids).__name__
        raise ValueError(f"source_ids is a {kind}: expected a tensor or a list of lists")
    sequences = []
    for index, row in enumerate(source_ids):
        sequence = _ids(f"source_ids[{index}]", row)
        while sequence and sequence[-1] == pad_id:
            sequence.pop()
        if not sequence or pad_id in sequence or min(sequence) < 0 or max(sequence) > _LARGEST_ID:
            raise ValueError(
                f"source_ids[{index}] is {sequence or 'empty'}: expected ids from 0, below 2**31, "
                f"padding ({pad_id}) only after them"
            )
        sequences.append(sequence)
    if not sequences:
        raise ValueError("source_ids is empty: expected at least one source")
    return sequences


def read_prefixes(target_prefix: Any, special_ids: SpecialIds, count: int) -> list[list[int]]:
    """The prefix of each source: one of ids for all, or a list of them, padded on the right."""
    rows = target_prefix.tolist() if isinstance(target_prefix, Tensor) else target_prefix
    rows = [*rows] if isinstance(rows, Iterable) else rows
    if isinstance(rows, list) and any(isinstance(row, Iterable) for row in rows):
        prefixes = [_ids(f"target_prefix[{index}]", row) for index, row in enumerate(rows)]
    else:
        prefixes = [_ids("target_prefix", () if rows is None else rows)] * count
    if len(prefixes) != count:
        raise ValueError(f"target_prefix has {len(prefixes)} lists: expected {count}, one a source")
    for begin in prefixes:
        while begin and begin[-1] == special_ids.pad_id:
            begin.pop()
        if begin[:1] == [special_ids.bos_id]:
            raise ValueError(f"target_prefix begins with BOS {begin[0]}: expected the ids after it")
    return prefixes


def _ids(name: str, row: Any) -> list[int]:
    try:
        ids = row.tolist() if isinstance(row, Tensor) else [*row]
        if any(isinstance(token_id, bool) for token_id in ids):
            raise TypeError
        return [operator.index(token_id) for token_id in ids]
    except TypeError as error:
        raise ValueError(f"{name} is {row!r}: expected a list of whole numbers") from error


def check_map(source_to_target: Mapping[int, int] | None, vocab_size: int) -> None:
    """Raise ValueError unless the argument maps source ids to target ids."""
    if not isinstance(source_to_target, Mapping | None):
        kind = type(source_to_target).__name__
        raise ValueError(
            f"source_to_target is a {kind}: expected a mapping of source ids to target ids"
        )
    for source_id, target_id in (source_to_target or {}).items():
        for each in (source_id, target_id):
            check_count(f"an id of source_to_target[{source_id!r}]", each, _LARGEST_ID, 0)
        if target_id >= vocab_size:
            raise ValueError(
                f"source_to_target[{source_id}] is {target_id}: "
                f"expected a target id, 0 to {vocab_size - 1}"
            )


def copied(
    index: int,
    sequence: Sequence[int],
    special_ids: SpecialIds,
    vocab_size: int,
    to_target: Mapping[int, int] | None,
) -> list[int]:
    """The part of a source that drafts may copy: its target ids without special ones.

    Raises ValueError if the source's ids cannot be the target's.
    """
    ids = sequence if to_target is None else [to_target[i] for i in sequence if i in to_target]
    if ids and max(ids) >= vocab_size:
        raise ValueError(
            f"source_ids[{index}] holds {max(ids)}, but the target's ids end at "
            f"{vocab_size - 1}: expected source_to_target, or drafter 'none'"
        )
    return [token_id for token_id in ids if token_id not in vars(special_ids).values()]


def check_sources(
    sequences: Sequence[Sequence[int]], max_length: int, most: int | None, vocab_size: int
) -> None:
    """Raise ValueError beyond the model's tables of `most` positions and `vocab_size` ids."""
    if most is not None and max_length > most:
        raise ValueError(f"max_length is {max_length}: expected at most {most}, the model's own")
    for index, sequence in enumerate(sequences):
        if most is not None and len(sequence) > most:
            raise ValueError(
                f"source_ids[{index}] has {len(sequence)} ids: "
                f"expected at most {most}, the model's longest source"
            )
        if max(sequence) >= vocab_size:
            raise ValueError(
                f"source_ids[{index}] holds {max(sequence)}: "
                f"expected source ids, 0 to {vocab_size - 1}"
            )
