"""Drafting on a device: what it keeps there, and the operators of greedy rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from molspec._native import DrafterFactory, GuessModel, TreeOptions, WindowOptions
from molspec.engine import host

if TYPE_CHECKING:
    from molspec.engine.cuda import CudaSession

#: kMostTreeNodes and kMostNgramSymbols: what a warp has room for.
_MOST_TREE_NODES = 32
_MOST_NGRAM_SYMBOLS = 512


class DeviceDrafts:
    """No drafts: the rows of the drafts tensor stay empty. Others extend this.

    What a query drafts from is made by the host when it starts, in the code that the CPU uses.
    """

    #: Nodes of a tree.
    limit = 0

    def __init__(self, session: CudaSession) -> None:
        self._session = session

    def fits(self, drafters: DrafterFactory) -> bool:
        """Whether other drafters need the same buffers, and the same numbers in a round."""
        return not isinstance(drafters.options, (WindowOptions, TreeOptions))

    def begin(self, drafters: DrafterFactory) -> None:
        """Draft for a decode loop."""

    def start(self, row: int, source_ids: Sequence[int]) -> int:
        """Begin a query; return the most nodes of a tree of it."""
        del row, source_ids
        return 0

    def propose(self, answers: Tensor, drafts: Tensor) -> None:
        """Queue the drafts of a round."""


def window_limits(session: CudaSession, options: WindowOptions | None) -> tuple[int, int]:
    """Nodes of a tree of windows and entries of a row of trees, at most."""
    return (0, 1) if options is None else options.tree_limits(session.spec.max_positions)


class DeviceWindowTrees:
    """The trees of windows there (csrc/ops/window_rows.h); without options, none."""

    def __init__(
        self, session: CudaSession, model: GuessModel, options: WindowOptions | None
    ) -> None:
        self._session = session
        self._limits = window_limits(session, options)
        self.trees = torch.zeros(session.query_count, self._limits[1], dtype=torch.int32)
        self.trees = self.trees.to(session.device)
        self.begin(model, options)

    def fits(self, options: WindowOptions | None) -> bool:
        """Whether the trees of other windows have room in the rows."""
        return window_limits(self._session, options) == self._limits

    def begin(self, model: GuessModel, options: WindowOptions | None) -> None:
        """Make trees of these windows."""
        self._model, self._options = model, options

    def start(self, row: int, source_ids: Sequence[int]) -> int:
        """Send the trees of a query; return the nodes of the largest."""
        trees = [0]
        if self._options is not None:
            trees = self._model.window_trees(source_ids, self._options)
        self.trees[row, : len(trees)] = self._session.send(host.integers(trees))
        return max(trees[3 : 1 + 3 * trees[0] : 3], default=0)


class DeviceWindows(DeviceDrafts):
    """Windows of the source: the host makes their trees, a round picks one."""

    def __init__(
        self, session: CudaSession, drafters: DrafterFactory, options: WindowOptions
    ) -> None:
        super().__init__(session)
        self._windows = DeviceWindowTrees(session, drafters.model, options)
        self.limit, _ = window_limits(session, options)
        self._bos = drafters.model.bos

    def fits(self, drafters: DrafterFactory) -> bool:
        """Whether the trees have room in the rows."""
        options = drafters.options
        if not isinstance(options, WindowOptions) or drafters.model.bos != self._bos:
            return False
        return self._windows.fits(options)

    def begin(self, drafters: DrafterFactory) -> None:
        """Draft by the options of these drafters."""
        assert isinstance(drafters.options, WindowOptions)
        self._windows.begin(drafters.model, drafters.options)

    def start(self, row: int, source_ids: Sequence[int]) -> int:
        """Send the trees of a query; return the nodes of the largest."""
        return self._windows.start(row, source_ids)

    def propose(self, answers: Tensor, drafts: Tensor) -> None:
        """Pick the tree of the last token."""
        self._session.library.propose_windows(answers, drafts, self._windows.trees, self._bos)


class DeviceGuess:
    """What a guess reads and remembers there (csrc/ops/guess_tensors.h)."""

    def __init__(self, session: CudaSession, model: GuessModel, states: int) -> None:
        self._session = session
        self.model = model
        text, state = model.row_limits(session.spec.max_positions)
        rows, device = session.query_count, session.device
        self._tables = session.send(_bytes(model.tables_row()))
        self._texts = torch.zeros(rows, text, dtype=torch.uint8, device=device)
        self._states = torch.zeros(rows, states, state, dtype=torch.uint8, device=device)
        #: As operators take them.
        self.tensors = self._tables, self._texts, self._states

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Send the copy text of a query."""
        text = _bytes(self.model.text_row(source_ids))
        self._texts[row, : len(text)] = self._session.send(text)


class DeviceTree(DeviceDrafts):
    """The likeliest continuations by a guess: a round makes the tree."""

    def __init__(
        self, session: CudaSession, drafters: DrafterFactory, options: TreeOptions
    ) -> None:
        super().__init__(session)
        self._numbers = _numbers(options)
        self.limit = options.node_budget
        self._guess = DeviceGuess(session, drafters.model, 1 + self.limit)

    def fits(self, drafters: DrafterFactory) -> bool:
        """Whether it is the same guess, and a tree of the same options."""
        options = drafters.options
        if not isinstance(options, TreeOptions) or drafters.model is not self._guess.model:
            return False
        return _numbers(options) == self._numbers

    def start(self, row: int, source_ids: Sequence[int]) -> int:
        """Send the copy text of a query."""
        self._guess.start(row, source_ids)
        return self.limit

    def propose(self, answers: Tensor, drafts: Tensor) -> None:
        """Grow the trees behind the last tokens."""
        _, max_depth, min_log_prob = self._numbers
        self._session.library.propose_tree(
            answers, drafts, *self._guess.tensors, max_depth, min_log_prob
        )


def takes(drafters: DrafterFactory) -> bool:
    """Whether the drafts can be made on a device: a guess there needs its n-gram model."""
    if not isinstance(drafters.options, TreeOptions):
        return True
    return guesses(drafters.model) and drafters.options.node_budget <= _MOST_TREE_NODES


def guesses(model: GuessModel) -> bool:
    """Whether it can guess on a device."""
    return 0 < model.ngram_alphabet <= _MOST_NGRAM_SYMBOLS


def make(session: CudaSession, drafters: DrafterFactory) -> DeviceDrafts:
    """The drafter on a session's device."""
    if isinstance(drafters.options, WindowOptions):
        return DeviceWindows(session, drafters, drafters.options)
    if isinstance(drafters.options, TreeOptions):
        return DeviceTree(session, drafters, drafters.options)
    return DeviceDrafts(session)


def _numbers(options: TreeOptions) -> tuple[int, int, float]:
    return options.node_budget, options.max_depth, options.min_log_prob


def _bytes(row: bytes) -> Tensor:
    return torch.frombuffer(bytearray(row), dtype=torch.uint8)
