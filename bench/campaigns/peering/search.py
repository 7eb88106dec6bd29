"""Greedy and beam search around a model that steps, for peers without searches of their own.

A finished hypothesis stays in the beam with its score; a search ends when all are finished.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from peering.text import Text

MAX_LENGTH = 200


class StepModel(Protocol):
    """A model that decodes rows position by position; the rows of a query are adjacent."""

    def start(self, source_ids: npt.NDArray[np.int64]) -> None:
        """Encode queries [query, source], one row each."""

    def step(self, token_ids: npt.NDArray[np.int64], position: int) -> npt.NDArray[np.float32]:
        """Logits [row, vocab] after a token of every row."""

    def select_rows(self, rows: npt.NDArray[np.int64]) -> None:
        """Replace the cache's rows by these of its rows, of the same queries."""

    def select_queries(self, queries: npt.NDArray[np.int64]) -> None:
        """Continue with these queries only, which have one row each."""


def greedy(model: StepModel, sources: Sequence[Sequence[int]], text: Text) -> list[list[str]]:
    """One answer a query; finished queries leave the batch."""
    source_ids = np.array(text.padded(sources), dtype=np.int64)
    model.start(source_ids)
    answers: list[list[int]] = [[] for _ in sources]
    alive = np.arange(len(sources))
    token_ids = np.full(len(sources), text.bos_id, dtype=np.int64)
    for position in range(MAX_LENGTH):
        token_ids = model.step(token_ids, position).argmax(axis=-1)
        for query, token_id in zip(alive.tolist(), token_ids.tolist(), strict=True):
            answers[query].append(token_id)
        unfinished = np.flatnonzero(token_ids != text.eos_id)
        if not len(unfinished):
            break
        if len(unfinished) < len(alive):
            alive, token_ids = alive[unfinished], token_ids[unfinished]
            model.select_queries(unfinished)
    return [[text.target(answer)] for answer in answers]


def beam(
    model: StepModel, source: Sequence[int], beam_size: int, text: Text
) -> list[tuple[str, float]]:
    """The best beam_size answers of one query, best first, with the sum of their log-probs."""
    model.start(np.array([source], dtype=np.int64))
    sequences: list[list[int]] = [[text.bos_id]]
    scores = np.zeros(1)
    for position in range(MAX_LENGTH):
        last = np.array([sequence[-1] for sequence in sequences], dtype=np.int64)
        done = last == text.eos_id
        if done.all():
            break
        log_probs = _log_softmax(model.step(last, position))
        log_probs[done] = -np.inf
        log_probs[done, text.eos_id] = 0.0
        candidates = (scores[:, None] + log_probs).ravel()
        count = min(beam_size, len(candidates))
        best = np.argpartition(-candidates, count - 1)[:count]
        best = best[np.argsort(-candidates[best], kind="stable")]
        parents, token_ids = np.divmod(best, log_probs.shape[1])
        scores = candidates[best]
        sequences = [
            sequences[parent] if done[parent] else [*sequences[parent], token_id]
            for parent, token_id in zip(parents.tolist(), token_ids.tolist(), strict=True)
        ]
        model.select_rows(parents)
    texts = (text.target(sequence) for sequence in sequences)
    return list(zip(texts, scores.tolist(), strict=True))


def _log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
