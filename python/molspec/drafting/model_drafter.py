"""A drafter that is a model: it continues every path by some tokens, in a batch of all queries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Protocol

from molspec import _native
from molspec.decoding import Drafter, DraftTree, Path
from molspec.drafting.configurations import Drafting
from molspec.drafting.session_drafter import MOST_ROWS, Frame, Ids, SessionDrafter
from molspec.engine.session import Session


class Gamma(Protocol):
    """Says how many tokens to draft."""

    def count(self) -> int:
        """Tokens to draft."""

    def verified(self, accepted: int, drafted: int) -> None:
        """Note how many of the tokens drafted after a path were accepted."""

    def begin(self) -> None:
        """Drafting begins."""

    def end(self, drafted: int) -> None:
        """So many tokens have been drafted after each path."""


class ModelDrafter(SessionDrafter):
    """Continues every path token by token; see `SessionDrafter`."""

    def __init__(
        self,
        session: Session,
        guess: _native.GuessModel,
        gamma: Gamma,
        inner: Drafting | Drafter,
        frame: Frame | None,
        max_positions: int | None,
        width: int,
    ) -> None:
        self._gamma = gamma
        self._inner = inner if isinstance(inner, Drafter) else None
        drafts = _native.OutsideOptions() if isinstance(inner, Drafter) else inner.native()
        self._native = _native.Continuations(
            row_count=MOST_ROWS, guess_model=guess, drafts=drafts, width=width
        )
        super().__init__(session, self._native, frame, max_positions)
        #: What was drafted last, by query and path.
        self._last: dict[tuple[int, tuple[int, ...]], list[list[int]]] = {}

    def read(self, row: int, source_ids: Ids, encoder_ids: Ids) -> None:
        """Begin a query whose encoder ids are those of the other model."""
        super().read(row, source_ids, encoder_ids)
        if isinstance(self._inner, ModelDrafter):
            self._inner.read(row, source_ids, encoder_ids)

    def _start(self, row: int, source_ids: Ids, encoder_ids: Ids) -> None:
        super()._start(row, source_ids, encoder_ids)
        if self._inner is not None:
            try:
                self._inner.start(row, source_ids)
            except BaseException:
                super().release(row)
                raise

    def release(self, row: int) -> None:
        """End a query."""
        super().release(row)
        if self._inner is not None:
            self._inner.release(row)

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft after every path."""
        self._gamma.begin()
        self._look_back(paths)
        trees, most = self._drafted(paths, self._gamma.count())
        self._remember(paths, trees)
        self._gamma.end(most)
        return trees

    def _run(self) -> None:
        native, done = self._native, False
        while not done:
            native.plan(self._proposed())
            log_probs = self._session.step(native.nodes, native.path_slots, native.block_count)
            done = native.advance(log_probs)
            self.calls += 1

    def _proposed(self) -> Sequence[DraftTree]:
        """What the inner drafter, where there is one, proposes for this model's own paths."""
        if self._inner is None:
            return []
        paths = self._native.paths()
        return self._inner.propose(
            [
                Path(
                    self._names[path.row],
                    path.token_ids,
                    path.log_prob,
                    sampler=path.sampler,
                )
                for path in paths
            ]
        )

    def _remember(self, paths: Sequence[Path], trees: Sequence[DraftTree]) -> None:
        self._last = {}
        for path, tree in zip(paths, trees, strict=True):
            if drafted := _chain(tree):
                key = path.row, tuple(path.token_ids)
                self._last.setdefault(key, []).append(drafted)

    def _look_back(self, paths: Sequence[Path]) -> None:
        """Tell gamma what became of the last drafts, where their paths went on."""
        longest = max(map(len, chain.from_iterable(self._last.values())), default=-1)
        for path in paths:
            token_ids = tuple(path.token_ids)
            for begin in range(len(token_ids) - 1, max(-1, len(token_ids) - 2 - longest), -1):
                chains = self._last.get((path.row, token_ids[:begin]))
                if chains is not None:
                    going = token_ids[begin:-1]
                    best = max(chains, key=lambda drafted: _common(drafted, going))
                    self._gamma.verified(_common(best, going), len(best))
                    break


def _chain(tree: DraftTree) -> list[int]:
    """The tokens of the tree's longest path that begins with its first node."""
    drafted, last = [], -1
    for node, (token_id, parent) in enumerate(zip(tree.token_ids, tree.parents, strict=True)):
        if parent == last:
            drafted.append(token_id)
            last = node
    return drafted


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """Tokens that both begin with."""
    count = 0
    for mine, its in zip(left, right, strict=False):
        if mine != its:
            break
        count += 1
    return count
