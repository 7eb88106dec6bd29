"""Drafters with a model of their own: its session, and the queries in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from molspec import _native
from molspec.decoding import DraftTree, Path
from molspec.engine.devices import Engine
from molspec.engine.session import Session
from molspec.text import Vocabulary

Ids = Sequence[int]
#: The ids before and after a source for the encoder.
Frame = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Opened:
    """A session on a draft model, for at most `query_count` queries in progress.

    frame: the ids before and after a source's ids for the encoder; without it, the target model's
    encoder ids are used. max_positions: of the longest source.
    """

    session: Session
    query_count: int
    frame: Frame | None = None
    max_positions: int | None = None

    @classmethod
    def of(cls, engine: Engine, vocabulary: Vocabulary, query_count: int) -> Opened:
        """A session of molspec's engine."""
        frame = engine.spec.source_frame(vocabulary.bos_id, vocabulary.eos_id)
        return cls(engine.session(query_count), query_count, frame, engine.spec.max_positions)


class SessionDrafter(ABC):
    """Drafts with a session of its own for one decode loop.

    `native` has the paths that the session has evaluated. A source that is too long for the model
    gets no drafts.
    """

    def __init__(
        self, opened: Opened, native: _native.Continuations | _native.SpecDrafterPaths
    ) -> None:
        self._session = opened.session
        self._paths = native
        self._frame = opened.frame
        self._longest = opened.max_positions
        self._free = list(reversed(range(opened.query_count)))
        #: Rows of the session by the queries' names; None for sources that it cannot read.
        self._rows: dict[int, int | None] = {}
        self._names: dict[int, int] = {}
        #: Rows and sources to encode.
        self._new: dict[int, Ids] = {}

    @abstractmethod
    def _run(self) -> None:
        """Draft after the given paths."""

    def start(self, row: int, source_ids: Ids) -> None:
        """Announce a query, which `read` begins."""
        self._rows[row] = None

    def read(self, row: int, source_ids: Ids, encoder_ids: Ids) -> None:
        """Begin a query with the target model's encoder ids. Raises ValueError if too many are."""
        if self._frame is not None:
            begin, end = self._frame
            encoder_ids = [*begin, *source_ids, *end]
        if self._longest is not None and len(encoder_ids) > self._longest:
            return
        if not self._free:
            raise ValueError(f"{len(self._names)} queries are in progress: expected no more")
        self._paths.start(self._free[-1], source_ids)
        own_row = self._free.pop()
        self._rows[row], self._names[own_row], self._new[own_row] = own_row, row, encoder_ids

    def release(self, row: int) -> None:
        """End a query."""
        own_row = self._rows.pop(row)
        if own_row is None:
            return
        if self._new.pop(own_row, None) is None:
            self._session.release(own_row)
        self._paths.release(own_row)
        del self._names[own_row]
        self._free.append(own_row)

    def _encode(self, paths: Sequence[Path]) -> None:
        """Encode the new sources of the paths; a failure affects only its own query."""
        own_rows = {self._rows[path.row] for path in paths}
        new = {own_row: source for own_row, source in self._new.items() if own_row in own_rows}
        if not new:
            return
        try:
            self._session.encode(list(new), list(new.values()))
        except BaseException:
            for own_row in new:
                self._session.release(own_row)
            raise
        for own_row in new:
            del self._new[own_row]

    def _drafted(self, paths: Sequence[Path], count: int) -> tuple[list[DraftTree], int]:
        """Draft at most `count` tokens after every path; also return the maximum drafted."""
        self._encode(paths)
        native, counts, waiting = [], [], []
        for at, path in enumerate(paths):
            row = self._rows[path.row]
            if row is None:
                continue
            room = count if self._longest is None else self._longest - len(path.token_ids)
            native.append(
                _native.Path(
                    row=row, token_ids=path.token_ids, log_prob=path.log_prob, sampler=path.sampler
                )
            )
            counts.append(max(0, min(count, room)))
            waiting.append(at)
        self._paths.request(native, counts)
        if any(counts):
            self._run()
        trees = [DraftTree()] * len(paths)
        for at, tree in zip(waiting, self._paths.trees, strict=True):
            trees[at] = tree
        return trees, max(counts, default=0)

    def _step(self) -> npt.NDArray[np.float32]:
        """Log-probabilities after the planned nodes, by a pass of the draft model."""
        native = self._paths
        return self._session.step(native.nodes, native.path_slots, native.block_count)
