"""The interface of engines for decoding: the session of one batch, and rounds of its searches.

A session's tensors are on the host, whatever torch's default device and type; its buffers grow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from molspec import _native
from molspec._native import Decoded, GuessModel


@dataclass(frozen=True)
class Source:
    """The source of a query.

    token_ids: in the target's vocabulary, without BOS and EOS, for drafts; in forced decoding the
        targets, with EOS between them.
    encoder_ids: for the encoder, with BOS and EOS as the model needs them.
    prefix: the tokens that its answers begin with.
    """

    token_ids: Sequence[int]
    encoder_ids: Sequence[int]
    prefix: Sequence[int] = ()


@dataclass(frozen=True, eq=False)
class Strategy:
    """A query's search, and the drafter if that is an external one (decoding/drafter.py)."""

    search: _native.SearchSpec
    drafter: Any = None

    def __post_init__(self) -> None:
        """Raise ValueError if the search drafts otherwise."""
        if self.search.external != (self.drafter is not None):
            wanted = "an external drafter, as search says" if self.search.external else "None"
            raise ValueError(f"drafter is {self.drafter!r}: expected {wanted}")


class Session(ABC):
    """Rows of a batch that are encoded, stepped and released; one thread at a time.

    The last four methods are features that an engine may lack, as here.
    """

    @abstractmethod
    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources into free rows. If it raises, release the rows."""

    @abstractmethod
    def step(
        self, nodes: npt.NDArray[np.int32], path_slots: npt.NDArray[np.int32], block_count: int
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities [node, vocab] after the nodes; see `ops.decoder_step`."""

    @abstractmethod
    def release(self, row: int) -> None:
        """Free a row, if it is not free already."""

    def prepared_step(self) -> _native.Step | None:
        """A prepared step, as far as the buffers have room, for a batch that steps by itself.

        Valid until the next call of the session.
        """
        return None

    def executor(self, strategy: Strategy, source: Source, guess: GuessModel) -> Executor | None:
        """The rounds of such queries on the session's device; None if the host runs them."""
        del strategy, source, guess
        return None

    def keep_hidden_states(self) -> None:
        """Store the last hidden state of every node from the next step on.

        Raises ValueError if the engine has no hidden states.
        """
        raise ValueError("drafter reads hidden states: expected a model of molspec's own engine")

    def hidden_states(self, slots: Sequence[int]) -> Tensor:
        """Last hidden states float32 [slot, d_model] of evaluated nodes."""
        raise NotImplementedError


class Executor(Protocol):
    """Runs searches for queries in rows of a session."""

    @property
    def live_count(self) -> int:
        """The number of queries that are not known to be done."""

    @property
    def decoder_calls(self) -> int:
        """The number of decoder passes so far."""

    def start(self, row: int, strategy: Strategy, source: Source) -> None:
        """Begin the query of an encoded row."""

    def run(self, until_done: bool = False) -> Sequence[Decoded]:
        """Do a round of all queries; return those that are done.

        until_done: do several rounds if possible, at most until a query is done.
        """

    def cancel(self, row: int) -> None:
        """Drop a live query."""


def check_source_length(length: int, longest: int) -> None:
    """Raise RuntimeError for a source of no ids, or of more than a model's positions."""
    if not 1 <= length <= longest:
        raise RuntimeError(f"source has {length} ids: expected 1 to {longest}")


def grown(buffer: Tensor, rows: int) -> Tensor:
    """The buffer [row, ...], or one of at least twice its size, with room for so many rows.

    Unwritten rows are not read; on a device they are zero.
    """
    if rows <= len(buffer):
        return buffer
    shape = max(2 * len(buffer), rows), *buffer.shape[1:]
    if buffer.is_cuda:
        larger = buffer.new_zeros(shape)
        larger[: len(buffer)] = buffer
    else:
        larger = buffer.new_empty(shape)
        # torch would copy with all its threads, which then spin on the cores that the engine's
        # threads need.
        larger.numpy()[: len(buffer)] = buffer.numpy()
    return larger
