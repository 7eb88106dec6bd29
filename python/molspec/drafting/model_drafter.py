"""A drafter that is a model: it continues every path by some tokens, in a batch of all queries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Protocol

from molspec import _native
from molspec.decoding import Drafter, DraftTree, Path, Session
from molspec.drafting.configurations import Drafting

Ids = Sequence[int]


class Gamma(Protocol):
    """Says how many tokens to draft."""

    def count(self) -> int:
        """Tokens to draft."""

    def verified(self, accepted: int, drafted: int) -> None:
        """Note how many of the tokens drafted behind a path were accepted."""

    def begin(self) -> None:
        """Drafting begins."""

    def end(self, drafted: int) -> None:
        """So many tokens have been drafted behind each path."""


class ModelDrafter:
    """Drafts with a session of its own for one decode loop, of at most row_count queries.

    frame is what stands before and behind a source's ids where they are encoded; without one the
    encoder's ids of the other model are read as they are (`read`). A source that is too long for
    the model gets no drafts.
    """

    def __init__(
        self,
        session: Session,
        guess: _native.GuessModel,
        gamma: Gamma,
        inner: Drafting | Drafter,
        frame: tuple[list[int], list[int]] | None,
        max_positions: int | None,
        row_count: int,
        width: int,
    ) -> None:
        self._session = session
        self._gamma = gamma
        self._inner = inner if isinstance(inner, Drafter) else None
        drafts = _native.OutsideOptions() if isinstance(inner, Drafter) else inner.native()
        self._native = _native.Continuations(
            row_count=row_count, guess_model=guess, drafts=drafts, width=width
        )
        self._frame = frame
        self._longest = max_positions
        self._free = list(reversed(range(row_count)))
        #: Rows of the session by the queries' names, and of those that it cannot read none.
        self._rows: dict[int, int | None] = {}
        self._names: dict[int, int] = {}
        #: Rows and sources that are not encoded yet.
        self._new: dict[int, Ids] = {}
        #: What was drafted last, by query and path.
        self._drafted: dict[tuple[int, tuple[int, ...]], list[list[int]]] = {}
        #: Passes of the drafting model.
        self.calls = 0

    def start(self, row: int, source_ids: Ids) -> None:
        """Begin a query. Raises ValueError where there are too many."""
        if self._frame is not None:
            begin, end = self._frame
            self._start(row, source_ids, [*begin, *source_ids, *end])

    def read(self, row: int, source_ids: Ids, encoder_ids: Ids) -> None:
        """Begin a query whose encoder ids are those of the other model."""
        if self._frame is None:
            self._start(row, source_ids, encoder_ids)
        if isinstance(self._inner, ModelDrafter):
            self._inner.read(row, source_ids, encoder_ids)

    def _start(self, row: int, source_ids: Ids, encoder_ids: Ids) -> None:
        if self._inner is not None:
            self._inner.start(row, source_ids)
        if self._longest is not None and len(encoder_ids) > self._longest:
            self._rows[row] = None
            return
        if not self._free:
            raise ValueError(f"batch_size: expected at most {len(self._rows)} with a ModelDraft")
        place = self._free.pop()
        self._native.start(place, source_ids)
        self._rows[row], self._names[place], self._new[place] = place, row, encoder_ids

    def release(self, row: int) -> None:
        """End a query."""
        if self._inner is not None:
            self._inner.release(row)
        place = self._rows.pop(row)
        if place is None:
            return
        if self._new.pop(place, None) is None:
            self._session.release(place)
        self._native.release(place)
        del self._names[place]
        self._free.append(place)

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft behind every path."""
        self._gamma.begin()
        self._look_back(paths)
        self._encode()
        asked = [(at, path, self._rows[path.row]) for at, path in enumerate(paths)]
        count = self._gamma.count()
        native, counts = [], []
        places = []
        for at, path, row in asked:
            if row is None:
                continue
            room = count if self._longest is None else self._longest - len(path.token_ids)
            native.append(_native.Path(row, path.token_ids, path.log_prob, path.sampler))
            counts.append(max(0, min(count, room)))
            places.append(at)
        self._continue(native, counts)
        trees = [DraftTree()] * len(paths)
        for at, tree in zip(places, self._native.trees, strict=True):
            trees[at] = tree
        self._remember(paths, trees)
        self._gamma.end(max(counts, default=0))
        return trees

    def _encode(self) -> None:
        if self._new:
            self._session.encode(list(self._new), list(self._new.values()))
            self._new.clear()

    def _continue(self, paths: Sequence[_native.Path], counts: Sequence[int]) -> None:
        native = self._native
        native.ask(paths, counts)
        done = not any(counts)
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
        self._drafted = {}
        for path, tree in zip(paths, trees, strict=True):
            if drafted := _chain(tree):
                key = path.row, tuple(path.token_ids)
                self._drafted.setdefault(key, []).append(drafted)

    def _look_back(self, paths: Sequence[Path]) -> None:
        """Tell gamma what became of the last drafts, where their paths went on."""
        longest = max(map(len, chain.from_iterable(self._drafted.values())), default=-1)
        for path in paths:
            token_ids = tuple(path.token_ids)
            for begin in range(len(token_ids) - 1, max(-1, len(token_ids) - 2 - longest), -1):
                chains = self._drafted.get((path.row, token_ids[:begin]))
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
