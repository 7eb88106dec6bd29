"""A drafter that knows the answers: no drafter needs fewer calls with as many nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from molspec import Model, Results
from molspec.decoding import DraftTree, Path

Ids = tuple[int, ...]


class Known:
    """Drafts the next tokens of the answer as a chain; `answers` maps query tokens to answers.

    A call accepts all of them and adds one token; the last call adds EOS, which is never drafted.
    """

    def __init__(self, answers: Mapping[Ids, Sequence[int]], node_budget: int) -> None:
        self._answers, self._node_budget = answers, node_budget
        self._rows: dict[int, Sequence[int]] = {}

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Look the answer up."""
        self._rows[row] = self._answers[tuple(source_ids)]

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft after every path."""
        return [self._draft(self._rows[path.row], len(path.token_ids)) for path in paths]

    def release(self, row: int) -> None:
        """Forget the query."""
        del self._rows[row]

    def _draft(self, answer: Sequence[int], begin: int) -> DraftTree:
        drafted = list(answer[begin : begin + self._node_budget])
        return DraftTree(drafted, list(range(-1, len(drafted) - 1)), [0.0] * len(drafted))


def answers(model: Model, results: Results) -> dict[Ids, Sequence[int]]:
    """A model's first answers, by the tokens of their queries."""
    return {
        tuple(
            model.reader.source(result.query, model.canonical_queries).token_ids
        ): model.vocabulary.encode(result.predictions[0].smiles)
        for result in results
        if result.predictions
    }


def fewest_calls(tokens: int, node_budget: int) -> int:
    """The fewest calls that emit so many tokens, EOS included."""
    return -(-tokens // (node_budget + 1))


def fewest_passes(nodes: int, steps: int, beam_size: int, node_budget: int, ahead: int) -> int:
    """The fewest passes of an exact beam, if standard search needs so many nodes and steps.

    A pass has the live hypotheses and node_budget more nodes, and does at most 1 + `ahead` steps.
    """
    return max(-(-nodes // (beam_size + node_budget)), -(-steps // (ahead + 1)))
