"""Several models as one: the mean of the probabilities that they give each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from torch import Tensor

from molspec import _native
from molspec.engine.cpu.engine import NativeEngine
from molspec.engine.cuda.engine import CudaEngine
from molspec.engine.session import Session


class EnsembleEngine:
    """Runs the engines of several models, which read and write the same tokens.

    Its log-probabilities are the logs of the arithmetic means of the models' probabilities, added
    in double in the order of the models. Sources and answers are as long as each model allows.

    Raises ValueError if the vocabularies differ in size.
    """

    def __init__(self, engines: Sequence[NativeEngine | CudaEngine]) -> None:
        sizes = {(each.spec.source_vocab_size, each.spec.target_vocab_size) for each in engines}
        if len(sizes) != 1:
            raise ValueError(f"engines have vocabularies of {sizes}: expected one size")
        self.engines = tuple(engines)
        #: The first model's, with the positions that all have.
        longest = min(each.spec.max_positions for each in engines)
        self.spec = replace(engines[0].spec, max_positions=longest)

    def session(self, query_count: int) -> EnsembleSession:
        """Caches for a batch of at most `query_count` queries."""
        return EnsembleSession([each.session(query_count) for each in self.engines])

    def free_caches(self) -> None:
        """Free the idle caches; those in use stay."""
        for each in self.engines:
            each.free_caches()


class EnsembleSession(Session):
    """One session of each model. Every node has the same slot in all; the host runs all rounds.

    Hidden states are those of the first model.
    """

    def __init__(self, sessions: Sequence[Session]) -> None:
        self._sessions = sessions

    def encode(self, rows: Sequence[int], sources: Sequence[Sequence[int]]) -> None:
        """Encode sources into free rows by every model. If it raises, release the rows."""
        for each in self._sessions:
            each.encode(rows, sources)

    def step(
        self, nodes: npt.NDArray[np.int32], path_slots: npt.NDArray[np.int32], block_count: int
    ) -> npt.NDArray[np.float32]:
        """Mean log-probabilities [at least node, vocab] after the nodes.

        The result is overwritten by the next call.
        """
        parts = [each.step(nodes, path_slots, block_count) for each in self._sessions]
        _native.average_log_probs(parts, len(nodes))
        return parts[0]

    def release(self, row: int) -> None:
        """Free a row, if it is not free already."""
        for each in self._sessions:
            each.release(row)

    def prepared_step(self) -> _native.Step | None:
        """The models' prepared steps as one, if all have some."""
        steps = [step for each in self._sessions if (step := each.prepared_step()) is not None]
        if len(steps) < len(self._sessions):
            return None
        return steps[0].averaged_with(steps[1:])

    def keep_hidden_states(self) -> None:
        """Store the first model's last hidden states from the next step on."""
        self._sessions[0].keep_hidden_states()

    def hidden_states(self, slots: Sequence[int]) -> Tensor:
        """The first model's last hidden states float32 [slot, d_model] of evaluated nodes."""
        return self._sessions[0].hidden_states(slots)
