"""What decoding needs of an engine: the session of one batch, and what may run its searches.

Sessions keep tensors on the host, whatever torch's default device and type are, and buffers that
grow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from molspec import _native
from molspec._native import Decoded, GuessModel


class Session(ABC):
    """Rows of a batch that are encoded, stepped and released; one thread at a time.

    The last four methods say what an engine can do besides; here it cannot.
    """

    @abstractmethod
    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources into free rows. Where it raises, the rows are to be released."""

    @abstractmethod
    def step(
        self, nodes: npt.NDArray[np.int32], path_slots: npt.NDArray[np.int32], block_count: int
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities [node, vocab] after the nodes; see `ops.decoder_step`."""

    @abstractmethod
    def release(self, row: int) -> None:
        """Free a row; one that is free stays so."""

    def prepared_step(self) -> _native.Step | None:
        """What `step` does as far as there is room, for a batch that steps by itself.

        Good until the next call of the session.
        """
        return None

    def executor(self, search: _native.SearchSpec, guess: GuessModel) -> Executor | None:
        """What runs such searches on the session's device; None if the host must."""
        del search, guess
        return None

    def keep_hidden_states(self) -> None:
        """Keep the last hidden state of every node from the next step on.

        Raises ValueError if the engine has none to give.
        """
        raise ValueError("drafter reads hidden states: expected a model of molspec's own engine")

    def hidden_states(self, slots: Sequence[int]) -> Tensor:
        """Last hidden states float32 [slot, d_model] of nodes that were kept."""
        raise NotImplementedError


class Executor(Protocol):
    """Runs one kind of search by itself, for queries in rows of a session."""

    @property
    def live_count(self) -> int:
        """Queries that are not known to be done."""

    @property
    def decoder_calls(self) -> int:
        """Passes of the decoder so far."""

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Begin the query of an encoded row."""

    def run(self, until_done: bool = False) -> Sequence[Decoded]:
        """Do a round of all queries; return those that are done.

        until_done: do as many rounds as can be done at once, until a query is done at the most.
        """

    def cancel(self, row: int) -> None:
        """Forget a query that is not done."""


def integers(values: Sequence[int], dtype: torch.dtype = torch.int32) -> Tensor:
    """A tensor [value]."""
    return torch.tensor(values, dtype=dtype, device="cpu")


def grown(buffer: Tensor, rows: int) -> Tensor:
    """The buffer [row, ...] with room for so many rows: itself, or one of at least twice its size.

    What nobody has written is not read; on a device it is zero all the same.
    """
    if rows <= len(buffer):
        return buffer
    shape = max(2 * len(buffer), rows), *buffer.shape[1:]
    if buffer.is_cuda:
        larger = buffer.new_zeros(shape)
        larger[: len(buffer)] = buffer
    else:
        larger = buffer.new_empty(shape)
        # torch would copy with all its threads, which then spin for a while on the cores that the
        # engine's threads need.
        larger.numpy()[: len(buffer)] = buffer.numpy()
    return larger
