"""Drafting on a device: its buffers there, and the operators of greedy rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from molspec._native import (
    LIMITS,
    DrafterOptions,
    GuessModel,
    NoDraftOptions,
    TreeOptions,
    WindowOptions,
)
from molspec.engine.cuda.session import CudaSession
from molspec.engine.session import integers


class DeviceDrafts:
    """No drafts: the rows of the drafts tensor stay empty. Others extend this.

    The host makes a query's data for drafts when it starts, with the same code as for the CPU.
    """

    #: Nodes of a tree.
    limit = 0

    def __init__(self, session: CudaSession) -> None:
        self._session = session

    def fits(self, options: DrafterOptions, model: GuessModel) -> bool:
        """Whether another drafter can use the same buffers and numbers in a round."""
        del model
        return isinstance(options, NoDraftOptions)

    def begin(self, options: DrafterOptions, model: GuessModel) -> None:
        """Use these options."""

    def start(self, row: int, source_ids: Sequence[int]) -> int:
        """Begin a query; return the maximum nodes of its trees."""
        del row, source_ids
        return 0

    def propose(self, answers: Tensor, drafts: Tensor) -> None:
        """Queue the drafts of a round."""


def window_limits(session: CudaSession, options: DrafterOptions) -> tuple[int, int]:
    """Maximum nodes of a window tree and entries of a row of trees; (0, 1) without windows."""
    if not isinstance(options, WindowOptions):
        return 0, 1
    return options.tree_limits(session.spec.max_positions)


class DeviceWindows(DeviceDrafts):
    """Windows of the source: the host makes their trees, a round picks one.

    Without windows, as SBS has them too, no row has a tree.
    """

    def __init__(self, session: CudaSession, options: DrafterOptions, model: GuessModel) -> None:
        super().__init__(session)
        self._limits = window_limits(session, options)
        self.limit = self._limits[0]
        #: WindowRows (csrc/cuda/rounds.h).
        self.trees = torch.zeros(session.query_count, self._limits[1], dtype=torch.int32)
        self.trees = self.trees.to(session.device)
        self._bos = model.bos
        self.begin(options, model)

    def fits(self, options: DrafterOptions, model: GuessModel) -> bool:
        """Whether the trees of other windows fit in the rows."""
        return model.bos == self._bos and window_limits(self._session, options) == self._limits

    def begin(self, options: DrafterOptions, model: GuessModel) -> None:
        """Make trees of these windows."""
        self._options, self._model = options, model

    def start(self, row: int, source_ids: Sequence[int]) -> int:
        """Send the trees of a query; return the nodes of the largest."""
        trees = [0]
        if isinstance(self._options, WindowOptions):
            trees = self._model.window_trees(source_ids, self._options)
        self.trees[row, : len(trees)] = self._session.send(integers(trees))
        return max(trees[3 : 1 + 3 * trees[0] : 3], default=0)

    def propose(self, answers: Tensor, drafts: Tensor) -> None:
        """Queue the choice of the last token's tree."""
        self._session.library.propose_windows(answers, drafts, self.trees, self._bos)


class DeviceGuess:
    """The data of guesses on a device (csrc/cuda/rounds.h)."""

    def __init__(self, session: CudaSession, model: GuessModel, states: int) -> None:
        self._session = session
        self.model = model
        text, state = model.row_limits(session.spec.max_positions)
        rows, device = session.query_count, session.device
        self._tables = session.send(_bytes(model.tables_row()))
        self._texts = torch.zeros(rows, text, dtype=torch.uint8, device=device)
        self._states = torch.zeros(rows, states, state, dtype=torch.uint8, device=device)
        #: In the order of the operators' argument.
        self.tensors = self._tables, self._texts, self._states

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Send the copy text of a query."""
        text = _bytes(self.model.text_row(source_ids))
        self._texts[row, : len(text)] = self._session.send(text)


class DeviceTree(DeviceDrafts):
    """A tree of the likeliest guessed continuations, which a round makes."""

    #: In which it grows; later ones cost more than they save (docs/benchmarks/engine.md).
    MAX_TURNS: ClassVar = 3

    def __init__(self, session: CudaSession, options: TreeOptions, model: GuessModel) -> None:
        super().__init__(session)
        self._numbers = _numbers(options)
        self.limit = options.node_budget
        self._guess = DeviceGuess(session, model, self.limit + LIMITS["tree_states"])

    def fits(self, options: DrafterOptions, model: GuessModel) -> bool:
        """Whether it is the same guess, and a tree of the same options."""
        if not isinstance(options, TreeOptions) or model is not self._guess.model:
            return False
        return _numbers(options) == self._numbers

    def start(self, row: int, source_ids: Sequence[int]) -> int:
        """Send the copy text of a query."""
        self._guess.start(row, source_ids)
        return self.limit

    def propose(self, answers: Tensor, drafts: Tensor) -> None:
        """Grow the trees after the last tokens."""
        _, max_depth, min_log_prob = self._numbers
        self._session.library.propose_tree(
            answers, drafts, *self._guess.tensors, max_depth, self.MAX_TURNS, min_log_prob
        )


def takes(options: DrafterOptions, model: GuessModel) -> bool:
    """Whether the drafts can be made on a device: a guess there needs its n-gram model."""
    if isinstance(options, TreeOptions):
        return guesses(model) and options.node_budget <= LIMITS["tree_nodes"]
    return isinstance(options, (NoDraftOptions, WindowOptions))


def guesses(model: GuessModel) -> bool:
    """Whether a guess can run on a device."""
    return 0 < model.ngram_alphabet <= LIMITS["ngram_symbols"]


def make(session: CudaSession, options: DrafterOptions, model: GuessModel) -> DeviceDrafts:
    """Make the drafter on a session's device, one of those that it `takes`."""
    if isinstance(options, WindowOptions):
        return DeviceWindows(session, options, model)
    if isinstance(options, TreeOptions):
        return DeviceTree(session, options, model)
    return DeviceDrafts(session)


def _numbers(options: TreeOptions) -> tuple[int, int, float]:
    return options.node_budget, options.max_depth, options.min_log_prob


def _bytes(row: bytes) -> Tensor:
    return torch.frombuffer(bytearray(row), dtype=torch.uint8)
