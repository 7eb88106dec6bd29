"""The searches as their papers define them: prefixes, lists and sorting, no trees and no caches.

`next_log_probs(prefix)` gives the log-probs after a list of token ids that begins with BOS.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from molspec import _native
from molspec._native import Batch, SearchSpec
from molspec.drafting import guess_model
from molspec.engine.devices import Engine
from molspec.prediction.results import Result
from tests.tiny import VOCABULARY

NextLogProbs = Callable[[Sequence[int]], list[float]]
EOS = VOCABULARY.eos_id


@dataclass(frozen=True)
class Hypothesis:
    token_ids: tuple[int, ...] = ()
    log_prob: float = 0.0
    finished: bool = False

    def is_open(self, max_length: int) -> bool:
        return not self.finished and len(self.token_ids) < max_length

    def extend(self, token_id: int, log_prob: float) -> Hypothesis:
        if token_id == EOS:
            return Hypothesis(self.token_ids, self.log_prob + log_prob, True)
        return Hypothesis((*self.token_ids, token_id), self.log_prob + log_prob)


def model_of(engine: Engine, source_ids: Sequence[int]) -> NextLogProbs:
    """Log-probs of an engine for one query. Prefixes are evaluated node by node, and cached."""
    bos, eos = VOCABULARY.bos_id, VOCABULARY.eos_id
    session = engine.session(1)
    session.encode([0], [[bos, *source_ids, eos]])
    cached: dict[tuple[int, ...], list[float]] = {}

    def next_log_probs(prefix: Sequence[int]) -> list[float]:
        key = tuple(prefix)
        if key not in cached:
            length = len(key)
            slots = np.arange(length, dtype=np.int32)
            nodes = np.array([[t, p, 0, 0] for p, t in enumerate(key)], dtype=np.int32)
            cached[key] = session.step(nodes, slots, -(-length // 16))[length - 1].tolist()
        return cached[key]

    return next_log_probs


def greedy(next_log_probs: NextLogProbs, max_length: int) -> Hypothesis:
    hypothesis = Hypothesis()
    while hypothesis.is_open(max_length):
        row = next_log_probs([VOCABULARY.bos_id, *hypothesis.token_ids])
        best = max(range(len(row)), key=lambda token: (row[token], -token))
        hypothesis = hypothesis.extend(best, row[best])
    return hypothesis


def beam_search(
    next_log_probs: NextLogProbs,
    beam_size: int,
    max_length: int,
    length_penalty: float = 0.0,
    apart: bool = False,
) -> list[Hypothesis]:
    """All extensions of all hypotheses, sorted by score, parent rank and token id.

    apart: with a second list, of hypotheses that end among the best beam_size extensions.
    """

    def score(hypothesis: Hypothesis) -> float:
        length = len(hypothesis.token_ids) + hypothesis.finished
        return hypothesis.log_prob / length**length_penalty

    beam, ended = [Hypothesis()], list[Hypothesis]()
    while any(hypothesis.is_open(max_length) for hypothesis in beam):
        candidates = []
        for rank, hypothesis in enumerate(beam):
            if not hypothesis.is_open(max_length):
                candidates.append((-score(hypothesis), rank, -1, hypothesis))
                continue
            row = next_log_probs([VOCABULARY.bos_id, *hypothesis.token_ids])
            for token_id, log_prob in enumerate(row):
                longer = hypothesis.extend(token_id, log_prob)
                candidates.append((-score(longer), rank, token_id, longer))
        extensions = [entry[3] for entry in sorted(candidates, key=lambda c: c[:3])]
        if not apart:
            beam = extensions[:beam_size]
            continue
        ended += [h for h in extensions[:beam_size] if not h.is_open(max_length)]
        ended = sorted(ended, key=lambda h: -score(h))[:beam_size]
        beam = [h for h in extensions if h.is_open(max_length)][:beam_size]
        if beam and len(ended) == beam_size and score(beam[0]) <= score(ended[-1]):
            break
    return ended if apart else beam


def is_accepted(row: list[float], token_id: int, beam_size: int, nucleus: float) -> bool:
    """Rule of Andronov et al.: among the beam_size likeliest tokens, with little mass above it."""
    ranked = sorted(range(len(row)), key=lambda token: (-row[token], token))
    rank = ranked.index(token_id)
    mass_above = math.fsum(math.exp(row[token]) for token in ranked[:rank])
    return rank < beam_size and (rank == 0 or mass_above < nucleus)


def speculative_beam_search(
    next_log_probs: NextLogProbs,
    drafts: Callable[[int], list[list[int]]],
    beam_size: int,
    max_length: int,
    nucleus: float = 0.9975,
) -> list[Hypothesis]:
    """SBS of Andronov et al.; drafts(last token) are the drafts after a hypothesis."""
    beam = [Hypothesis()]
    while any(hypothesis.is_open(max_length) for hypothesis in beam):
        leaves = []
        for rank, hypothesis in enumerate(beam):
            if not hypothesis.is_open(max_length):
                leaves.append((-hypothesis.log_prob, rank, -1, 0, hypothesis))
                continue
            last = hypothesis.token_ids[-1] if hypothesis.token_ids else VOCABULARY.bos_id
            best: list[int] = []
            for draft in drafts(last):
                accepted_ids = _accepted_prefix(
                    next_log_probs, hypothesis, draft, beam_size, max_length, nucleus
                )
                best = accepted_ids if len(accepted_ids) > len(best) else best
            for position in range(len(best) + 1):
                parent = hypothesis
                for token_id in best[:position]:
                    row = next_log_probs([VOCABULARY.bos_id, *parent.token_ids])
                    parent = parent.extend(token_id, row[token_id])
                row = next_log_probs([VOCABULARY.bos_id, *parent.token_ids])
                likeliest = sorted(range(len(row)), key=lambda token: (-row[token], token))
                for token_id in likeliest[:beam_size]:
                    if position < len(best) and token_id == best[position]:
                        continue
                    leaf = parent.extend(token_id, row[token_id])
                    leaves.append((-leaf.log_prob, rank, token_id, position, leaf))
        beam = [entry[4] for entry in sorted(leaves, key=lambda leaf: leaf[:4])[:beam_size]]
    return beam


def _accepted_prefix(
    next_log_probs: NextLogProbs,
    hypothesis: Hypothesis,
    draft: list[int],
    beam_size: int,
    max_length: int,
    nucleus: float,
) -> list[int]:
    prefix = [VOCABULARY.bos_id, *hypothesis.token_ids]
    accepted_ids: list[int] = []
    for token_id in draft:
        is_full = len(prefix) - 1 + len(accepted_ids) + 1 >= max_length
        if is_full or not is_accepted(
            next_log_probs(prefix + accepted_ids), token_id, beam_size, nucleus
        ):
            break
        accepted_ids.append(token_id)
    return accepted_ids


def answers(result: Result) -> list[tuple[str, float, bool]]:
    return [(p.smiles, p.log_prob, p.finished) for p in result.predictions]


def plain_answers(hypotheses: list[Hypothesis]) -> list[tuple[str, float, bool]]:
    return [(VOCABULARY.decode(h.token_ids), h.log_prob, h.finished) for h in hypotheses]


def model_with_ties(seed: int) -> NextLogProbs:
    """A model whose log-probs have few different values, so most hypotheses tie with others."""
    steepness = (0.5, 1.0, 2.0)[seed % 3]

    def next_log_probs(prefix: Sequence[int]) -> list[float]:
        draw = random.Random(f"{seed} {tuple(prefix)}")
        row = [-steepness * draw.randrange(4) for _ in range(VOCABULARY.size)]
        row[EOS] -= 1
        return row

    return next_log_probs


def decode(
    spec: SearchSpec, next_log_probs: NextLogProbs, prefix: Sequence[int] = ()
) -> list[_native.Hypothesis]:
    batch = Batch(1, guess_model(VOCABULARY, None))
    batch.start(0, spec, [4, 5], prefix=prefix)
    tokens: dict[int, int] = {}
    while True:
        batch.plan()
        rows = []
        for token, position, begin, _ in batch.nodes.tolist():
            slots = batch.path_slots[begin : begin + position + 1].tolist()
            tokens[slots[-1]] = token
            rows.append(next_log_probs([tokens[slot] for slot in slots]))
        if done := batch.advance(np.array(rows, np.float32)):
            if done[0].error:
                raise ValueError(done[0].error)
            return done[0].hypotheses
