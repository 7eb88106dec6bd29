"""Drafting on a device: its buffers there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from molspec._native import LIMITS, DrafterOptions, GuessModel, NoDraftOptions, TreeOptions
from molspec.engine.cuda.caches import Caches


@dataclass(frozen=True)
class DraftSizes:
    """What the buffers of drafts, and their numbers in captured graphs, depend on."""

    #: Maximum nodes of a tree.
    limit: int = 0
    guess: GuessModel | None = None
    max_depth: int = 0
    min_log_prob: float = 0.0

    @classmethod
    def of(cls, options: DrafterOptions, model: GuessModel) -> DraftSizes | None:
        """The sizes of a drafter's buffers; None if the drafts cannot be made on a device.

        A guess there needs its n-gram model.
        """
        if isinstance(options, TreeOptions):
            fits = guesses(model) and options.node_budget <= LIMITS["tree_nodes"]
            limits = options.node_budget, model, options.max_depth, options.min_log_prob
            return cls(*limits) if fits else None
        return cls() if isinstance(options, NoDraftOptions) else None


class DeviceGuess:
    """The data of guesses on a device (csrc/drafting/guess_rows.h)."""

    def __init__(self, caches: Caches, model: GuessModel, states: int) -> None:
        self._caches, self._model = caches, model
        text, state = model.row_limits(caches.spec.max_positions)
        rows, device = caches.query_count, caches.device
        self._tables = caches.outbox.send(_bytes(model.tables_row()))
        self._texts = torch.zeros(rows, text, dtype=torch.uint8, device=device)
        self._states = torch.zeros(rows, states, state, dtype=torch.uint8, device=device)
        #: In the order of the operators' argument.
        self.tensors = self._tables, self._texts, self._states

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Send the copy text of a query."""
        text = _bytes(self._model.text_row(source_ids))
        self._caches.outbox.put(text, self._texts[row, : len(text)])


def guesses(model: GuessModel) -> bool:
    """Whether a guess can run on a device."""
    return 0 < model.ngram_alphabet <= LIMITS["ngram_symbols"]


def _bytes(row: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(row, dtype=np.uint8)
