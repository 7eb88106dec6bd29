"""A round of the host: draft, step, accept, for every query under way."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from torch import Tensor

from molspec import _native
from molspec._native import Batch, Decoded, GuessModel
from molspec.decoding.drafter import (
    Drafter,
    DraftTree,
    EncoderDrafter,
    Path,
    wants_hidden_states,
)
from molspec.decoding.spec import SearchSpec
from molspec.decoding.statistics import Stopwatch

#: Names of queries for drafters: a drafter may serve several decode loops.
_names = count()


class Session(Protocol):
    """What is asked of an engine: rows of a batch that are encoded, stepped and released.

    It may have two methods more. prepared_step() gives a `_native.Step`, which does what `step`
    does as far as there is room and is good until the next call of the session: a batch steps by
    itself with it. rounds(spec, guess) gives the `DeviceRounds` that run a search, or None where
    the host must.
    """

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources into free rows."""

    def step(
        self, nodes: npt.NDArray[np.int32], path_slots: npt.NDArray[np.int32], block_count: int
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities [node, vocab] behind the nodes; see `ops.decoder_step`."""

    def release(self, row: int) -> None:
        """Free a row."""


@runtime_checkable
class KeepsHiddenStates(Protocol):
    """A session that can keep what drafters may read: the model's last hidden states."""

    def keep_hidden_states(self) -> None:
        """Keep the last hidden state of every node from the next step on."""

    def hidden_states(self, slots: Sequence[int]) -> Tensor:
        """Last hidden states float32 [slot, d_model] of nodes that were kept."""


class Rounds(Protocol):
    """Searches of queries in rows of a session, a round of all of them at a time."""

    @property
    def live_count(self) -> int:
        """Queries that are not known to be done."""

    @property
    def decoder_calls(self) -> int:
        """Passes of the decoder so far."""

    def run(self, until_done: bool = False) -> list[Decoded]:
        """Do a round; return the queries that are done.

        until_done: do as many as can be done at once, until a query is done at the most.
        """

    def cancel(self, row: int) -> None:
        """Forget a query that is not done."""


class DeviceRounds(Rounds, Protocol):
    """Rounds of one kind of search that an engine runs by itself."""

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Begin the query of an encoded row."""


#: Methods that a session may have besides, see `Session`.
PreparedStep = Callable[[], _native.Step]
RoundsOf = Callable[[_native.SearchSpec, GuessModel], DeviceRounds | None]


class HostRounds:
    """Rounds of searches that draft, verify and select on the host, between a session's steps."""

    def __init__(
        self, session: Session, guess: GuessModel, row_count: int, watch: Stopwatch
    ) -> None:
        self._session = session
        # By name: a look at a protocol takes longer than the rest of what is done here.
        self._prepared_step: PreparedStep | None = getattr(session, "prepared_step", None)
        self._batch = Batch(row_count, guess)
        self._watch = watch
        #: Of every live row whose drafts come from outside: by whom, and its name there.
        self._drafters: dict[int, tuple[Drafter, int]] = {}
        self.decoder_calls = 0

    @property
    def live_count(self) -> int:
        """Queries that are not done."""
        return self._batch.live_count

    def start(
        self,
        row: int,
        spec: SearchSpec,
        source_ids: Sequence[int],
        encoder_ids: Sequence[int] = (),
    ) -> None:
        """Begin the query of an encoded row. What is drawn depends on encoder_ids."""
        if spec.drafter is not None:
            if wants_hidden_states(spec.drafter):
                self._keeper(spec.drafter).keep_hidden_states()
            name = next(_names)
            spec.drafter.start(name, source_ids)
            if isinstance(spec.drafter, EncoderDrafter):
                spec.drafter.read(name, source_ids, encoder_ids)
            self._drafters[row] = spec.drafter, name
        self._batch.start(row, spec.search, source_ids, _key(encoder_ids))

    def run(self, until_done: bool = False) -> list[Decoded]:
        """Draft, step, accept."""
        batch, watch = self._batch, self._watch
        if self._prepared_step is not None and not self._drafters:
            ran = batch.run(self._prepared_step(), until_done)
            self.decoder_calls += ran.rounds
            watch.charge_seconds("draft", ran.planning)
            watch.charge_seconds("step", ran.stepping)
            if not ran.lacks_room:
                watch.charge("verify")
                return ran.done
        else:
            batch.plan(self._proposed())
            watch.charge("draft")
        log_probs = self._session.step(batch.nodes, batch.path_slots, batch.block_count)
        self.decoder_calls += 1
        watch.charge("step")
        done = batch.advance(log_probs)
        for decoded in done:
            self._release(decoded.query)
        watch.charge("verify")
        return done

    def cancel(self, row: int) -> None:
        """Forget a query that is not done."""
        self._batch.cancel(row)
        self._release(row)

    def _keeper(self, drafter: Drafter) -> KeepsHiddenStates:
        """The session, which the drafter wants hidden states of. Raises ValueError without any."""
        if not isinstance(self._session, KeepsHiddenStates):
            raise ValueError(
                f"drafter is {drafter!r}, which reads hidden states: expected a model of molspec's "
                "own engine"
            )
        return self._session

    def _release(self, row: int) -> None:
        drafter, name = self._drafters.pop(row, (None, 0))
        if drafter is not None:
            drafter.release(name)

    def _proposed(self) -> list[DraftTree]:
        """A tree for each path that waits for one; every drafter is asked once.

        Raises ValueError where a drafter gives another number of trees.
        """
        if not self._drafters:
            return []
        waiting = self._batch.paths()
        places: dict[int, tuple[Drafter, list[int]]] = {}
        for place, path in enumerate(waiting):
            drafter, _ = self._drafters[path.row]
            places.setdefault(id(drafter), (drafter, []))[1].append(place)
        proposed = [DraftTree()] * len(waiting)
        for drafter, mine in places.values():
            trees = drafter.propose(self._shown(drafter, [waiting[place] for place in mine]))
            if len(trees) != len(mine):
                raise ValueError(
                    f"{drafter!r} proposed {len(trees)} trees: expected {len(mine)}, one a path"
                )
            for place, tree in zip(mine, trees, strict=True):
                proposed[place] = tree
        return proposed

    def _shown(self, drafter: Drafter, paths: Sequence[_native.Path]) -> list[Path]:
        """Paths as the drafter sees them."""
        hidden: dict[int, Tensor] = {}
        if wants_hidden_states(drafter):
            slots = [path.slot for path in paths if path.token_ids]
            hidden = dict(zip(slots, self._keeper(drafter).hidden_states(slots), strict=True))
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
    """What tells a query from others, by what the model reads, on every machine alike."""
    content = np.asarray(encoder_ids, dtype="<i4").tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
