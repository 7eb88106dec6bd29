"""A round on the host: draft, step, accept, for every live query."""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
from torch import Tensor

from molspec import _native
from molspec._native import AdmittedTree, Batch, Decoded, GuessModel
from molspec.decoding import drafter as external
from molspec.decoding.drafter import Drafter, DrafterError, EncoderDrafter, Path
from molspec.decoding.statistics import Stopwatch
from molspec.engine.session import Session, Source, Strategy

_log = logging.getLogger("molspec")
#: Numbers of queries for drafters: a drafter may serve several batches.
_numbers = count()
#: Paths by their index among all that wait for drafts.
_Waiting = Mapping[int, _native.Path]


@dataclass(frozen=True)
class Failed:
    """The result of a query that cannot be decoded, in a row of the batch, as `Decoded`."""

    row: int
    error: Exception


class HostExecutor:
    """Runs searches that draft, verify and select on the host, between a session's steps.

    An external drafter is called once a round for all of its queries.
    """

    def __init__(self, session: Session, guess: GuessModel, rows: int, watch: Stopwatch) -> None:
        self._session = session
        self._batch, self._guess = Batch(rows, guess), guess
        #: For rows with an external drafter: the drafter, and the query's number there.
        self._drafters: dict[int, tuple[Drafter, int]] = {}
        self._watch = watch
        self.decoder_calls = 0

    @property
    def live_count(self) -> int:
        """Queries that are not done."""
        return self._batch.live_count

    def start(self, row: int, strategy: Strategy, source: Source) -> None:
        """Begin the query of an encoded row. Raises DrafterError if its drafter fails."""
        key = _key(source.encoder_ids)
        self._batch.start(row, strategy.search, source.token_ids, key, source.prefix)
        drafter = strategy.drafter
        if drafter is None:
            return
        number = next(_numbers)
        try:
            with external.failing(drafter, "start"):
                drafter.start(number, source.token_ids)
            self._drafters[row] = drafter, number
            if isinstance(drafter, EncoderDrafter):
                with external.failing(drafter, "read"):
                    drafter.read(number, source.token_ids, source.encoder_ids)
        except BaseException:
            self.cancel(row)
            raise

    def run(self, until_done: bool = False) -> Sequence[Decoded | Failed]:
        """Draft, step, accept; return the queries that are done.

        until_done: do several rounds if possible, at most until a query is done.
        """
        if not self._drafters and (step := self._session.prepared_step()) is not None:
            ran = self._batch.run(step, until_done)  # draft, step and accept, in C++
            self.decoder_calls += ran.rounds
            self._watch.charge_seconds("draft", ran.planning)
            self._watch.charge_seconds("step", ran.stepping)
            if not ran.lacks_room:
                self._watch.charge("verify")
                return ran.done
        elif failed := self._draft():
            return failed
        return self._accept(self._step())

    def _draft(self) -> list[Failed]:
        """Let every search draft and stage its nodes; or return those whose drafter failed."""
        trees, errors = self._propose()
        for row in errors:
            self.cancel(row)
        if not errors:
            self._batch.plan(trees)
        self._watch.charge("draft")
        return [Failed(row, error) for row, error in errors.items()]

    def _step(self) -> npt.NDArray[np.float32]:
        """The model's log-probabilities after the staged nodes [node, vocab]."""
        batch = self._batch
        log_probs = self._session.step(batch.nodes, batch.path_slots, batch.block_count)
        self.decoder_calls += 1
        self._watch.charge("step")
        return log_probs

    def _accept(self, log_probs: npt.NDArray[np.float32]) -> list[Decoded | Failed]:
        """Let every search accept what the model confirms; return the queries that are done."""
        done: list[Decoded | Failed] = []
        for decoded in self._batch.advance(log_probs):
            error = self._release(decoded.row)
            done.append(decoded if error is None else Failed(decoded.row, error))
        self._watch.charge("verify")
        return done

    def cancel(self, row: int) -> None:
        """Drop a live query."""
        self._batch.cancel(row)
        self._release(row)

    def _propose(self) -> tuple[list[AdmittedTree], dict[int, DrafterError]]:
        """A tree for each path that waits for one, and the errors of queries by row.

        If a drafter fails, it is called again for each query alone: only those for which it fails
        get an error.
        """
        errors: dict[int, DrafterError] = {}
        trees: dict[int, AdmittedTree] = {}
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
        return [trees[index] for index in sorted(trees)], errors

    def _release(self, row: int) -> DrafterError | None:
        """End a query; return the error of a drafter that fails."""
        drafter, number = self._drafters.pop(row, (None, 0))
        if drafter is None:
            return None
        try:
            with external.failing(drafter, "release"):
                drafter.release(number)
        except DrafterError as error:
            _log.warning("%s", error)
            return error
        return None

    def _proposed(self, paths: _Waiting) -> dict[int, AdmittedTree]:
        """One drafter's trees. Raises DrafterError, also if there is not one tree for each path."""
        drafter, _ = self._drafters[next(iter(paths.values())).row]
        trees = external.propose(drafter, self._shown(drafter, list(paths.values())), self._guess)
        return dict(zip(paths, trees, strict=True))

    def _shown(self, drafter: Drafter, paths: Sequence[_native.Path]) -> list[Path]:
        """The paths in the drafter's form."""
        hidden: dict[int, Tensor] = {}
        if external.wants_hidden_states(drafter):
            slots = [path.slot for path in paths if path.slot >= 0]
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


def _key(encoder_ids: Sequence[int]) -> int:
    """A key of a query, computed from the encoder ids, the same on every machine."""
    content = np.asarray(encoder_ids, dtype="<i4").tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _groups(paths: _Waiting, key: Callable[[_native.Path], int]) -> list[dict[int, _native.Path]]:
    groups: dict[int, dict[int, _native.Path]] = {}
    for index, path in paths.items():
        groups.setdefault(key(path), {})[index] = path
    return list(groups.values())
