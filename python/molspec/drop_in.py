"""`molspec.decode`: the decode loop for a model that somebody already has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from molspec import drafting
from molspec._native import Decoded, GreedySearch, GuessModel
from molspec.decoding import Session, Source, Statistics
from molspec.decoding import decode as decode_loop
from molspec.engine.adapters import adapt, evaluating, is_hugging_face
from molspec.engine.module import ModuleSession

DEFAULT_BATCH_SIZE = 32


@dataclass(frozen=True)
class Hypotheses:
    """What `decode` found, best first.

    sequences int64 [batch, n_best, length] without BOS, with EOS where it was reached, padded on
    the right with pad_id; log_probs float64 [batch, n_best], the sum over a sequence's tokens;
    lengths int64 [batch, n_best], EOS counted; finished bool [batch, n_best], False where
    max_length came before EOS. Where a beam found fewer than n_best, the rest has length 0 and
    log-probability -inf. The tensors are on the device of the source ids.
    """

    sequences: Tensor
    log_probs: Tensor
    lengths: Tensor
    finished: Tensor
    statistics: Statistics


@dataclass(frozen=True)
class _Options:
    """The arguments of `decode` that are numbers. Raises ValueError, naming a bad one."""

    bos_id: int
    eos_id: int
    pad_id: int
    max_length: int
    n_best: int
    beam_size: int
    batch_size: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = 0 if name.endswith("_id") else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(
                    f"{name} is {value!r}: expected a whole number of at least {least}"
                )
        if self.beam_size < self.n_best:
            raise ValueError(
                f"beam_size is {self.beam_size}: expected at least n_best, {self.n_best}"
            )

    @property
    def special_ids(self) -> tuple[int, int, int]:
        """PAD, BOS and EOS."""
        return self.pad_id, self.bos_id, self.eos_id


def decode(
    model: Any,
    source_ids: Tensor | Sequence[Sequence[int]],
    *,
    bos_id: int,
    eos_id: int,
    pad_id: int,
    max_length: int,
    n_best: int = 1,
    drafter: str | drafting.Drafting = "tree",
    batch_size: int = DEFAULT_BATCH_SIZE,
    tokens: Sequence[str] | None = None,
    source_to_target: Mapping[int, int] | None = None,
) -> Hypotheses:
    """Decode with any encoder-decoder; the same answers as its own decode loop, in fewer calls.

    model: a module with the paper's `encode_src` and `decode_tgt`; a Hugging Face encoder-decoder;
        a pair of callables `encode(source_ids) -> memory` and `decode(target_ids, memory,
        memory_padding_mask, position_offset) -> logits` (see `engine.module.EncoderDecoder`; a
        decode without its last argument gets its padding on the right). It is used as it is, on
        its device and in its dtype, without gradients, in evaluation mode; its own mode comes back.
    source_ids: int64 [batch, length], padded on the right with pad_id, or a list of lists, with
        whatever the model wants around them.
    bos_id: what the decoder starts with. Hugging Face: config.decoder_start_token_id.
    max_length: tokens of an answer at most, EOS counted.
    drafter: "none", "windows" (Andronov et al., J. Cheminform. 2025), "tree", or a configuration
        of `molspec.drafting`; it changes the time, not the answers.
    batch_size: queries under way together; it changes the time, not the answers.
    tokens: the target's token strings by id: drafts then follow ring-closure digits.
    source_to_target: target id of every source id that has one, where the vocabularies differ.

    Answers are exact up to the rounding of the model itself: two tokens whose log-probabilities
    differ by less than that may change places where the batch has another shape.

    Raises ValueError, naming the argument, where one makes no sense or the model gives tensors of
    another shape than expected or log-probabilities that are not numbers.
    """
    options = _Options(bos_id, eos_id, pad_id, max_length, n_best, n_best, batch_size)
    drafts = drafting.resolve(drafter)
    sequences = _sequences(source_ids, pad_id)
    device = source_ids.device if isinstance(source_ids, Tensor) else torch.device("cpu")
    with evaluating(model):
        session = _session(model, options, device)
        vocab_size = session.vocab_size(bos_id, sequences[0])
        copied = _Copies(options, vocab_size, source_to_target)
        sources = [
            Source(index, copied(index, sequence), sequence)
            for index, sequence in enumerate(sequences)
        ]
        guess = _guess_model(options, vocab_size, tokens)
        search = GreedySearch(drafting.factory(drafts, guess), batch_size, max_length)
        statistics = Statistics()
        decoded = dict(decode_loop(session, search, sources, batch_size, statistics))
    return _hypotheses(decoded, options, statistics, device)


def _sequences(source_ids: Tensor | Sequence[Sequence[int]], pad_id: int) -> list[list[int]]:
    """Sources without their padding."""
    if isinstance(source_ids, Tensor):
        if source_ids.dim() != 2 or source_ids.is_floating_point() or source_ids.is_complex():
            raise ValueError(
                f"source_ids is a {source_ids.dtype} tensor of shape {tuple(source_ids.shape)}: "
                "expected whole numbers [batch, length]"
            )
        source_ids = source_ids.tolist()
    sequences = []
    for index, row in enumerate(source_ids):
        length = len(row)
        while length and row[length - 1] == pad_id:
            length -= 1
        sequence = [int(token_id) for token_id in row[:length]]
        if not sequence or pad_id in sequence or min(sequence) < 0:
            raise ValueError(
                f"source_ids[{index}] is {sequence or 'empty'}: "
                f"expected ids of at least 0, padding ({pad_id}) only behind them"
            )
        sequences.append(sequence)
    if not sequences:
        raise ValueError("source_ids is empty: expected at least one source")
    return sequences


class _Copies:
    """What drafts may copy from a source: its target ids, without special ones."""

    def __init__(
        self, options: _Options, vocab_size: int, source_to_target: Mapping[int, int] | None
    ) -> None:
        self._special_ids = options.special_ids
        self._vocab_size = vocab_size
        self._map = source_to_target
        for source_id, target_id in (source_to_target or {}).items():
            if not 0 <= target_id < vocab_size:
                raise ValueError(
                    f"source_to_target[{source_id}] is {target_id}: "
                    f"expected a target id, 0 to {vocab_size - 1}"
                )

    def __call__(self, index: int, sequence: Sequence[int]) -> list[int]:
        """Target ids of the source with this index."""
        if self._map is not None:
            targets = [self._map[token_id] for token_id in sequence if token_id in self._map]
        else:
            targets = list(sequence)
        if targets and max(targets) >= self._vocab_size:
            raise ValueError(
                f"source_ids[{index}] holds {max(targets)}, but the target's ids end at "
                f"{self._vocab_size - 1}: say with source_to_target which are which"
            )
        return [token_id for token_id in targets if token_id not in self._special_ids]


class _Session(Session, Protocol):
    def vocab_size(self, bos_id: int, source: Sequence[int]) -> int: ...


def _session(model: Any, options: _Options, device: torch.device) -> _Session:
    if not is_hugging_face(model):
        return ModuleSession(adapt(model, options.pad_id, device), options.batch_size)
    from molspec.engine.hugging_face import HuggingFaceSession  # needs transformers

    return HuggingFaceSession(model, options.bos_id, options.pad_id, options.batch_size)


def _guess_model(options: _Options, vocab_size: int, tokens: Sequence[str] | None) -> GuessModel:
    """What drafters know of the vocabulary; without token strings, no ring closures."""
    if tokens is not None and len(tokens) != vocab_size:
        raise ValueError(
            f"tokens has {len(tokens)} strings: expected {vocab_size}, one for each target id"
        )
    for name in ("bos_id", "eos_id", "pad_id"):
        if getattr(options, name) >= vocab_size:
            raise ValueError(
                f"{name} is {getattr(options, name)}: expected a target id, 0 to {vocab_size - 1}"
            )
    return GuessModel(
        tokens=list(tokens or (f"<{token_id}>" for token_id in range(vocab_size))),
        pad=options.pad_id,
        bos=options.bos_id,
        eos=options.eos_id,
        unk=options.pad_id,
        ngram=None,
    )


def _hypotheses(
    decoded: Mapping[int, Decoded], options: _Options, statistics: Statistics, device: torch.device
) -> Hypotheses:
    shape = len(decoded), options.n_best
    log_probs = torch.full(shape, -torch.inf, dtype=torch.float64)
    lengths = torch.zeros(shape, dtype=torch.int64)
    finished = torch.zeros(shape, dtype=torch.bool)
    sequences: dict[tuple[int, int], list[int]] = {}
    for index, answer in decoded.items():
        if answer.error:
            raise ValueError(f"source_ids[{index}]: {answer.error}")
        for rank, hypothesis in enumerate(answer.hypotheses):
            end = [options.eos_id] if hypothesis.finished else []
            sequences[index, rank] = hypothesis.token_ids + end
            log_probs[index, rank] = hypothesis.log_prob
            lengths[index, rank] = len(sequences[index, rank])
            finished[index, rank] = hypothesis.finished
    padded = torch.full((*shape, int(lengths.max())), options.pad_id)
    for place, sequence in sequences.items():
        padded[place][: len(sequence)] = torch.tensor(sequence)
    return Hypotheses(
        padded.to(device), log_probs.to(device), lengths.to(device), finished.to(device), statistics
    )
