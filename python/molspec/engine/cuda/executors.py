"""The executors that one batch has on a device."""

from typing import Any

from molspec._native import GuessModel, SearchSpec
from molspec.engine.cuda.beams import BeamExecutor
from molspec.engine.cuda.caches import Caches
from molspec.engine.cuda.executor import GraphExecutor
from molspec.engine.cuda.greedy import GreedyExecutor

#: The kinds of searches whose rounds can run on a device.
_KINDS: tuple[type[GraphExecutor[Any]], ...] = (GreedyExecutor, BeamExecutor)
#: Maximum executors without live queries whose buffers and graphs are stored for reuse.
_MOST_IDLE = 4


class Executors:
    """The executors on one stream, one for each spec, beside the caches that they share."""

    def __init__(self, caches: Caches) -> None:
        self.caches = caches
        #: The last used one is last.
        self._executors: list[GraphExecutor[Any]] = []

    def end(self) -> None:
        """Drop all queries and wait for the queued rounds."""
        for each in self._executors:
            each.end()

    def find(self, spec: SearchSpec, guess: GuessModel) -> GraphExecutor[Any] | None:
        """The executor of a search whose rounds can run on the device; None for all others.

        It is that of an equal spec, or of another one without live queries whose buffers fit.
        """
        executor = next((each for each in self._executors if each.runs(spec, guess)), None)
        if executor is None:
            with self.caches.on_stream():
                executor = self._fitting(spec, guess)
            if executor is None:
                return None
        else:
            self._executors.remove(executor)
        self._executors.append(executor)
        return executor

    def _fitting(self, spec: SearchSpec, guess: GuessModel) -> GraphExecutor[Any] | None:
        """An idle executor whose buffers fit; or a new one, if there is room when idle ones go."""
        caches = self.caches
        for kind in _KINDS:
            if (sizes := kind.sizes_of(spec, guess, caches)) is not None:
                break
        else:
            return None
        idle = [each for each in self._executors if not each.live_count]
        fitting = (each for each in idle if isinstance(each, kind) and each.sizes == sizes)
        if (executor := next(fitting, None)) is not None:
            self._executors.remove(executor)
            executor.end()
            executor.begin(spec, guess)
            return executor
        needed = sizes.needs(caches)
        while len(idle) >= _MOST_IDLE or (idle and not caches.has_room(*needed)):
            self._drop(idle.pop(0))  # no variable here keeps its memory
        return kind(caches, spec, guess, sizes) if caches.has_room(*needed) else None

    def _drop(self, executor: GraphExecutor[Any]) -> None:
        executor.end()
        self._executors.remove(executor)
        self.caches.graphs.forget(executor)
