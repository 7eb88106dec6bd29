"""A drafter that knows the answers: none takes fewer calls with as many nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from molspec import Model, Results
from molspec.decoding import DraftTree, Path

Ids = tuple[int, ...]


class Known:
    """Drafts the next tokens of the answer, by the query's tokens, as a chain.

    A call confirms all of them and says one token more, the last one EOS, which is never drafted.
    """

    def __init__(self, answers: Mapping[Ids, Sequence[int]], node_budget: int) -> None:
        self._answers, self._node_budget = answers, node_budget
        self._rows: dict[int, Sequence[int]] = {}

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Look the answer up."""
        self._rows[row] = self._answers[tuple(source_ids)]

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft behind every path."""
        return [self._behind(self._rows[path.row], len(path.token_ids)) for path in paths]

    def release(self, row: int) -> None:
        """Forget the query."""
        del self._rows[row]

    def _behind(self, answer: Sequence[int], begin: int) -> DraftTree:
        drafted = list(answer[begin : begin + self._node_budget])
        return DraftTree(drafted, list(range(-1, len(drafted) - 1)), [0.0] * len(drafted))


def answers(model: Model, results: Results) -> dict[Ids, Sequence[int]]:
    """First answers of a model, by the tokens of their queries."""
    return {
        tuple(
            model.reader.source(result.query, model.canonical_queries).token_ids
        ): model.vocabulary.encode(result.predictions[0].smiles)
        for result in results
        if result.predictions
    }


def fewest_calls(tokens: int, node_budget: int) -> int:
    """Calls that say so many tokens, EOS counted, at the least."""
    return -(-tokens // (node_budget + 1))


def fewest_passes(nodes: int, steps: int, beam_size: int, node_budget: int, ahead: int) -> int:
    """Passes of an exact beam at the least, where standard search takes nodes in so many steps.

    A pass has the live hypotheses and node_budget more, and goes at most `ahead` steps further than
    one.
    """
    return max(-(-nodes // (beam_size + node_budget)), -(-steps // (ahead + 1)))
