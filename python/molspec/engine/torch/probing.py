"""Tests a user's model before it decodes: a wrong one would give wrong answers."""

import weakref
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from molspec.engine.torch import agreement
from molspec.engine.torch.adapters import modules_behind
from molspec.engine.torch.module import MODEL_ERRORS, EncoderDecoder, encoded

_SEED = 0


class Probed(NamedTuple):
    """The size of a model's target vocabulary, and why its sources cannot share a batch."""

    vocab_size: int
    flaw: str | None


@dataclass
class _Known:
    """The result of a test: the model is not tested again for the same."""

    ids: set[int] = field(default_factory=set)
    vocab_size: int = 0
    longest: int = 0
    max_length: int = 0
    columns: int = 0
    flaw: str | None = None


#: By the object behind encode, by the object behind decode, by PAD, the shapes of the weights and
#: whether any part is in training mode.
_known: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Any, dict[Any, _Known]]]
_known = weakref.WeakKeyDictionary()


def probe(
    parts: Sequence[Any], model: EncoderDecoder, sequences: Sequence[Sequence[int]], max_length: int
) -> Probed:
    """Test a model in a few calls for the ids and lengths of a decode.

    parts: encode and decode, or one module, which identify the model in later calls. The first call
    takes 5 encodes and 5 decodes, of which 4 are of few tokens; later ones of a module none, unless
    they have new ids, a longer source or a greater max_length. A resized module is tested again.

    Raises ValueError if a source's id or length, or max_length, is beyond the model's tables, or if
    its answers would be wrong: see `agreement`.
    """
    owners = [getattr(part, "__self__", part) for part in parts]  # of a bound method
    modules = modules_behind(parts)
    shapes = tuple(weight.shape for module in modules for weight in module.parameters())
    trains = any(part.training for module in modules for part in module.modules())
    known = _known_of(owners[0], owners[-1], (model.pad_id, shapes, trains))
    ids = {each for sequence in sequences for each in sequence} - known.ids
    long = max(sequences, key=len)
    # What no module is behind may have changed unseen.
    if shapes and not ids and len(long) <= known.longest and max_length <= known.max_length:
        return Probed(known.vocab_size, known.flaw)
    with _lookups_checked(modules):
        memory = _longest_memory(model, sequences, ids)
        _check_ids(model, ids)
        vocab_size = _vocab_size(model, memory)
        columns = max(1, min(agreement.COLUMNS, max_length - 1)) if len(long) > 1 else 0
        untried = columns > known.columns
        if max_length > known.max_length or untried:
            _check_width(modules, vocab_size, memory)
            eps = agreement.coarsest(modules, [memory])
            target_ids, logits = _check_decoder(model, long, memory, vocab_size, max_length, eps)
            if untried:
                short = min(sequences, key=len)
                short = short if len(short) < len(long) else long[: len(long) // 2]
                known.flaw = agreement.Trial(
                    model,
                    (short, long),
                    (encoded(model, [short]), memory),
                    target_ids[1, :columns],
                    logits[1, :columns],
                    agreement.coarsest(modules, [memory, logits]),
                ).flaw()
    known.columns = max(known.columns, columns)
    known.ids |= ids
    known.vocab_size, known.longest = vocab_size, max(known.longest, len(long))
    known.max_length = max(known.max_length, max_length)
    return Probed(vocab_size, known.flaw)


def check_decoder(model: EncoderDecoder, source: Sequence[int], max_length: int) -> None:
    """Raise ValueError as `probe` does for a decoder."""
    memory = encoded(model, [source])
    eps = agreement.coarsest((), [memory])
    _check_decoder(model, source, memory, _vocab_size(model, memory), max_length, eps)


def _known_of(encoder: Any, decoder: Any, key: object) -> _Known:
    try:
        by_decoder = _known.setdefault(encoder, weakref.WeakKeyDictionary())
        return by_decoder.setdefault(decoder, {}).setdefault(key, _Known())
    except TypeError:  # neither hash nor weak reference
        return _Known()


def _longest_memory(
    model: EncoderDecoder, sequences: Sequence[Sequence[int]], ids: Collection[int]
) -> Tensor:
    index = max(range(len(sequences)), key=lambda index: len(sequences[index]))
    try:
        return encoded(model, [sequences[index]])
    except MODEL_ERRORS as error:
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
    except (IndexError, RuntimeError, ValueError, AssertionError):
        for each in sorted(ids, reverse=True):  # one by one, as the model may take one source only
            try:
                encoded(model, [[each]])
            except IndexError as error:
                raise ValueError(
                    f"source_ids holds {each}: the model itself fails there, {error}"
                ) from error
            except (RuntimeError, AssertionError) as error:
                raise ValueError(
                    f"encode fails for one source of one id, {error}; {agreement.POLARITY}"
                ) from error


def _vocab_size(model: EncoderDecoder, memory: Tensor) -> int:
    target_ids = torch.zeros(1, 1, dtype=torch.int64, device=model.device)
    try:
        return agreement.logits_of(model, target_ids, memory).shape[2]
    except MODEL_ERRORS as error:
        raise ValueError(
            f"decode fails for a row of one token, {error}; {agreement.ROWS}"
        ) from error


def _check_width(modules: Sequence[nn.Module], width: int, memory: Tensor) -> None:
    """Raise ValueError for hidden states: as wide as the memory, and as no vocabulary."""
    parts = chain.from_iterable(module.modules() for module in modules)
    tables = [part for part in parts if isinstance(part, nn.Embedding)]
    wide = bool(tables) and all(table.embedding_dim == width for table in tables)
    if wide and memory.shape[-1] == width and all(t.num_embeddings != width for t in tables):
        raise ValueError(
            f"decode gives {width} values a token, as wide as the embeddings: expected logits; "
            "apply the output layer too"
        )


def _check_decoder(
    model: EncoderDecoder,
    source: Sequence[int],
    memory: Tensor,
    vocab_size: int,
    max_length: int,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Decode targets that differ in their second half, and in the last token alone.

    What is before that must not change.
    """
    target_ids = _three_targets(vocab_size, model.pad_id, max_length)
    try:
        logits = agreement.logits_of(model, target_ids, memory)
    except MODEL_ERRORS as error:
        try:
            agreement.logits_of(model, torch.zeros_like(target_ids), memory)
        except MODEL_ERRORS:
            raise ValueError(
                f"max_length is {max_length}: the model itself fails there, {error}"
            ) from error
        raise ValueError(
            f"decode gives {vocab_size} values a token, but cannot read as many ids, {error}: "
            "expected logits, one for each id that it reads; apply the output layer too"
        ) from error
    if _are_probabilities(logits):
        raise ValueError(
            "the model's decoder gives probabilities, which sum to 1: expected logits, or their "
            "log_softmax"
        )
    eps = max(eps, torch.finfo(logits.dtype).eps)
    half = max_length // 2
    changed = max(agreement.change(*logits[:2, :half]), agreement.change(*logits[::2, :-1]))
    if changed > agreement.rounding(logits, eps):
        agreement.check_repeats(model, source, memory, target_ids[:1], eps)
        raise ValueError(
            "the model's decoder is not causal: the log-probability of a token changes by "
            f"{changed:.2g} with later tokens; does the decoder mask them?"
        )
    return target_ids, logits


def _three_targets(vocab_size: int, pad_id: int, length: int) -> Tensor:
    """Random ids [3, length], none of them padding.

    The second differs from the first in the second half, the third in the last column.
    """
    ids = [each for each in range(vocab_size) if each != pad_id] or [0]
    allowed = torch.tensor(ids, device="cpu")
    generator = torch.Generator("cpu").manual_seed(_SEED)
    drawn = torch.randint(len(allowed), (length,), generator=generator, device="cpu")
    other = (drawn + 1) % len(allowed)
    last = torch.cat((drawn[:-1], other[-1:]))
    other[: length // 2] = drawn[: length // 2]
    return allowed[torch.stack((drawn, other, last))]


def _are_probabilities(logits: Tensor) -> bool:
    """Whether they sum to 1 and none is negative; rows with a single 1 may be logits."""
    sums = logits.double().sum(dim=-1)
    between = (logits > 0) & (logits < 1)
    near = (sums - 1).abs().max() <= agreement.rounding(logits, torch.finfo(logits.dtype).eps)
    return bool((logits >= 0).all() and between.any() and near)


@contextmanager
def _lookups_checked(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Check look-ups in the model's tables: on a device an invalid one would end the process."""

    def check(table: Any, arguments: tuple[Any, ...]) -> None:
        ids = arguments[0] if arguments else None
        if isinstance(ids, Tensor) and ids.numel() and int(ids.max()) >= table.num_embeddings:
            raise IndexError(
                f"an nn.Embedding of {table.num_embeddings} rows is indexed with {int(ids.max())}"
            )

    parts = {part for module in modules for part in module.modules()}
    tables = [part for part in parts if isinstance(part, nn.Embedding)]
    handles = [table.register_forward_pre_hook(check) for table in tables]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
