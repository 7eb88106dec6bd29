"""Drafters from outside of a search: their methods, who drafts for which query, and failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Protocol, runtime_checkable

from torch import Tensor

from molspec import _native
from molspec._native import Batch, DraftTree, Sampler
from molspec.engine.session import Session

__all__ = ["DraftTree", "Drafter", "DrafterError", "EncoderDrafter", "OutsideDrafts", "Path"]

_log = logging.getLogger("molspec")
#: Numbers of queries for drafters: a drafter may serve several batches.
_numbers = count()
#: Paths by their place among all that wait for drafts.
_Places = Mapping[int, _native.Path]


class DrafterError(RuntimeError):
    """A drafter failed for a query: it raised, or did not return one tree for each path."""


@dataclass(frozen=True)
class Path:
    """A live hypothesis, to be continued by a draft."""

    #: The query, as given to `Drafter.start`.
    row: int
    #: After BOS, in the target's vocabulary.
    token_ids: list[int]
    #: Natural log of the model's probability of them.
    log_prob: float
    #: float32 [d_model]: what the model chose the last token by, its last hidden state. None before
    #: there is a token, and for drafters that do not say `wants_hidden_states`.
    hidden_state: Tensor | None = None
    #: Of a sample, what draws its next tokens: `sampler.token(log_probs, position)` is the token
    #: that these log-probs would give it. A drafter that asks it agrees with the model more often.
    sampler: Sampler | None = None


def wants_hidden_states(drafter: object) -> bool:
    """Whether a drafter asks for the model's last hidden states, which engines of molspec keep."""
    return bool(getattr(drafter, "wants_hidden_states", False))


@runtime_checkable
class Drafter(Protocol):
    """Proposes tokens that may come next, for all live queries together.

    Its drafts change the time of greedy decoding and exact beams, never an answer. SBS depends on
    them. A decode loop calls it in one thread at a time. Loops in several threads may share it only
    if its methods are thread-safe.

    If its attribute `wants_hidden_states` is true, its paths have the model's hidden states.
    """

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Begin a query. `row` is a number that no other live query has.

        source_ids: in the target's vocabulary, without BOS and EOS.
        """

    def propose(self, paths: Sequence[Path]) -> Sequence[DraftTree]:
        """Return one tree for each path, in their order.

        A query has one path in greedy decoding, and one for each live hypothesis in a beam.
        `DraftTree(token_ids, parents, log_probs)` lists nodes, parents before children; parent -1
        is the end of the path. log_probs are natural logs of the probability that the model
        confirms the path up to the node. Nodes after EOS, BOS, PAD or UNK are ignored.
        """

    def release(self, row: int) -> None:
        """End a query: it is answered or cancelled."""


@runtime_checkable
class EncoderDrafter(Drafter, Protocol):
    """A drafter that encodes what the model does."""

    def read(self, row: int, source_ids: Sequence[int], encoder_ids: Sequence[int]) -> None:
        """Take what the model encodes of a query that has begun."""


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
