"""Drafts from outside of a search: who drafts for which query, and what follows a failure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

from torch import Tensor

from molspec import _native
from molspec._native import Batch
from molspec.decoding.drafter import (
    Drafter,
    DrafterError,
    DraftTree,
    EncoderDrafter,
    Path,
    wants_hidden_states,
)
from molspec.engine.session import Session

_log = logging.getLogger("molspec")
#: Numbers of queries for drafters: a drafter may serve several batches.
_numbers = count()
#: Paths by their place among all that wait for drafts.
_Places = Mapping[int, _native.Path]


class OutsideDrafts:
    """The drafters of a batch's rows, each called once a round for all of its queries."""

    def __init__(self, session: Session, batch: Batch) -> None:
        self._session = session
        self._batch = batch
        #: By row: the drafter, and the query's number there.
        self._drafters: dict[int, tuple[Drafter, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._drafters)

    def start(
        self, row: int, drafter: Drafter, source_ids: Sequence[int], encoder_ids: Sequence[int]
    ) -> None:
        """Begin a query. Raises DrafterError where its drafter fails."""
        number = next(_numbers)
        with _failing(drafter, "start"):
            drafter.start(number, source_ids)
        self._drafters[row] = drafter, number
        if isinstance(drafter, EncoderDrafter):
            try:
                with _failing(drafter, "read"):
                    drafter.read(number, source_ids, encoder_ids)
            except BaseException:
                self.release(row)
                raise

    def propose(self) -> tuple[list[DraftTree], dict[int, DrafterError]]:
        """A tree for each path that waits for one, and the errors of queries by row.

        A drafter that fails is called again for each query alone: only those that it fails for
        have an error, and no trees.
        """
        errors: dict[int, DrafterError] = {}
        trees: dict[int, DraftTree] = {}
        waiting = dict(enumerate(self._batch.paths())) if self._drafters else {}
        for together in _groups(waiting, lambda path: id(self._drafters[path.row][0])):
            try:
                trees |= self._proposed(together)
            except DrafterError as error:
                queries = _groups(together, lambda path: path.row)
                for query in queries:
                    try:
                        if len(queries) == 1:
                            raise error
                        trees |= self._proposed(query)
                    except DrafterError as its:
                        errors[next(iter(query.values())).row] = its
        return [trees[place] for place in sorted(trees)], errors

    def release(self, row: int) -> DrafterError | None:
        """End a query; return the error of a drafter that fails."""
        drafter, number = self._drafters.pop(row, (None, 0))
        if drafter is None:
            return None
        try:
            with _failing(drafter, "release"):
                drafter.release(number)
        except DrafterError as error:
            _log.warning("%s", error)
            return error
        return None

    def _proposed(self, paths: _Places) -> dict[int, DraftTree]:
        """What one drafter proposes. Raises DrafterError, for what is no tree a path too."""
        drafter, _ = self._drafters[next(iter(paths.values())).row]
        with _failing(drafter, "propose"):
            trees = drafter.propose(self._shown(drafter, list(paths.values())))
            if len(trees) != len(paths):
                raise ValueError(f"gave {len(trees)} trees: expected {len(paths)}, one a path")
            for tree in trees:
                self._batch.check(tree)
        return dict(zip(paths, trees, strict=True))

    def _shown(self, drafter: Drafter, paths: Sequence[_native.Path]) -> list[Path]:
        """Paths as the drafter sees them."""
        hidden: dict[int, Tensor] = {}
        if wants_hidden_states(drafter):
            slots = [path.slot for path in paths if path.token_ids]
            hidden = dict(zip(slots, self._session.hidden_states(slots), strict=True))
        return [
            Path(
                self._drafters[path.row][1],
                path.token_ids,
                path.log_prob,
                hidden.get(path.slot),
                path.sampler,
            )
            for path in paths
        ]


def _groups(paths: _Places, key: Callable[[_native.Path], int]) -> list[dict[int, _native.Path]]:
    groups: dict[int, dict[int, _native.Path]] = {}
    for place, path in paths.items():
        groups.setdefault(key(path), {})[place] = path
    return list(groups.values())


@contextmanager
def _failing(drafter: Drafter, method: str) -> Iterator[None]:
    """Name the drafter that fails. Raises DrafterError."""
    try:
        yield
    except Exception as error:
        raise DrafterError(
            f"drafter {type(drafter).__name__} failed in {method}: {type(error).__name__}: {error}"
        ) from error
