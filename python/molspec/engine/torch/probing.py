"""Tests a user's model before it decodes: a wrong one would give wrong answers."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from molspec.engine.torch.module import EncoderDecoder, check_logits, encoded

_SEED = 0


@dataclass
class _Known:
    """The result of a test: the model is not tested again for the same."""

    ids: set[int] = field(default_factory=set)
    max_length: int = 0


_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()


def probe(
    owner: Any, model: EncoderDecoder, sequences: Sequence[Sequence[int]], max_length: int
) -> int:
    """Test a model in a few calls for the ids and lengths of a decode; return its vocab size.

    owner: the object behind `model`, which identifies it in later calls.

    Raises ValueError if a source's id or length, or max_length, is beyond the model's tables, or if
    its decoder sees later tokens or returns probabilities.
    """
    known = _known_of(owner)
    ids = {each for sequence in sequences for each in sequence} - known.ids
    with _lookups_checked(owner):
        memory = _longest_memory(model, sequences, ids)
        _check_ids(model, ids)
        vocab_size = _vocab_size(model, memory)
        if max_length > known.max_length:
            _check_decoder(model, memory, vocab_size, max_length)
    known.ids |= ids
    known.max_length = max(known.max_length, max_length)
    return vocab_size


def check_decoder(model: EncoderDecoder, source: Sequence[int], max_length: int) -> None:
    """Raise ValueError as `probe` does for a decoder."""
    memory = encoded(model, [source])
    _check_decoder(model, memory, _vocab_size(model, memory), max_length)


def _known_of(owner: Any) -> _Known:
    try:
        return _known.setdefault(owner, _Known())
    except TypeError:  # neither hash nor weak reference
        return _Known()


def _longest_memory(
    model: EncoderDecoder, sequences: Sequence[Sequence[int]], ids: Collection[int]
) -> Tensor:
    index = max(range(len(sequences)), key=lambda index: len(sequences[index]))
    try:
        return encoded(model, [sequences[index]])
    except (IndexError, RuntimeError) as error:
        _check_ids(model, ids)
        encoded(model, [sequences[index][:1]])  # if this fails too, the length is not the cause
        raise ValueError(
            f"source_ids[{index}] has {len(sequences[index])} ids: the model itself fails there, "
            f"{error}"
        ) from error


def _check_ids(model: EncoderDecoder, ids: Collection[int]) -> None:
    """Encode every id as a source of its own."""
    if not ids:
        return
    try:
        encoded(model, [[each] for each in ids])
    except IndexError as error:
        most = max(each for each in ids if _fails(model, each))
        raise ValueError(
            f"source_ids holds {most}: the model itself fails there, {error}"
        ) from error


def _fails(model: EncoderDecoder, source_id: int) -> bool:
    try:
        encoded(model, [[source_id]])
    except IndexError:
        return True
    return False


def _vocab_size(model: EncoderDecoder, memory: Tensor) -> int:
    """The size and type of the model's distributions."""
    target_ids = torch.zeros(1, 1, dtype=torch.int64, device=model.device)
    return _logits(model, target_ids, memory).shape[2]


def _logits(model: EncoderDecoder, target_ids: Tensor, memory: Tensor) -> Tensor:
    rows = memory.expand(len(target_ids), *memory.shape[1:])
    mask = torch.zeros(rows.shape[:2], dtype=torch.bool, device=model.device)
    logits = model.decode_unpadded(target_ids, rows, mask)
    check_logits(logits, target_ids)
    return logits


def _check_decoder(model: EncoderDecoder, memory: Tensor, vocab_size: int, max_length: int) -> None:
    """Decode two targets that differ in their second half: the first half must not change."""
    target_ids = _two_targets(vocab_size, model.pad_id, max_length)
    try:
        logits = _logits(model, target_ids.to(model.device), memory)
    except (IndexError, RuntimeError) as error:
        raise ValueError(
            f"max_length is {max_length}: the model itself fails there, {error}"
        ) from error
    if _are_probabilities(logits):
        raise ValueError(
            "the model's decoder gives probabilities, which sum to 1: expected logits, or their "
            "log_softmax"
        )
    change = _change(*logits[:, : max_length // 2])
    if change > _rounding(logits):
        raise ValueError(
            "the model's decoder is not causal: the log-probability of a token changes by "
            f"{change:.2g} with later tokens; does the decoder mask them?"
        )


def _change(first: Tensor, second: Tensor) -> float:
    """Largest difference of the log-probabilities [token, vocab] of the likeliest tokens."""
    if len(first) == 0:
        return 0.0
    top = first.argmax(dim=-1, keepdim=True)
    likeliest = (each.log_softmax(dim=-1).gather(1, top) for each in (first, second))
    return float(torch.sub(*likeliest).abs().nan_to_num().max())


def _two_targets(vocab_size: int, pad_id: int, length: int) -> Tensor:
    """Random ids [2, length], none of them padding; the second halves differ in every column."""
    ids = [each for each in range(vocab_size) if each != pad_id] or [0]
    allowed = torch.tensor(ids, device="cpu")
    generator = torch.Generator("cpu").manual_seed(_SEED)
    drawn = torch.randint(len(allowed), (length,), generator=generator, device="cpu")
    other = (drawn + 1) % len(allowed)
    other[: length // 2] = drawn[: length // 2]
    return allowed[torch.stack((drawn, other))]


def _are_probabilities(logits: Tensor) -> bool:
    """Whether they sum to 1 and none is negative; rows with a single 1 may be logits."""
    sums = logits.double().sum(dim=-1)
    between = (logits > 0) & (logits < 1)
    near = (sums - 1).abs().max() <= _rounding(logits)
    return bool((logits >= 0).all() and between.any() and near)


def _rounding(logits: Tensor) -> float:
    """The allowed difference of equal logits in two rows of a batch."""
    largest = float(logits.amax(dim=-1).abs().nan_to_num().max())
    return float(torch.finfo(logits.dtype).eps ** 0.5) * max(1.0, largest)


@contextmanager
def _lookups_checked(owner: Any) -> Iterator[None]:
    """Check look-ups in the model's tables: on a device an invalid one would end the process."""

    def check(table: Any, arguments: tuple[Any, ...]) -> None:
        ids = arguments[0] if arguments else None
        if isinstance(ids, Tensor) and ids.numel() and int(ids.max()) >= table.num_embeddings:
            raise IndexError(
                f"an nn.Embedding of {table.num_embeddings} rows is indexed with {int(ids.max())}"
            )

    modules = owner.modules() if isinstance(owner, nn.Module) else ()
    tables = [part for part in modules if isinstance(part, nn.Embedding)]
    handles = [table.register_forward_pre_hook(check) for table in tables]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
