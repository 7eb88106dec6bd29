"""Drafters written in Python, for tests."""

import random
from collections.abc import Sequence

from molspec.drafting import DraftTree, Path
from tests import tiny


class Silent:
    """Drafts nothing, and notes its paths."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    def start(self, row: int, source_ids: Sequence[int]) -> None: ...

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        self.paths += paths
        return [DraftTree()] * len(paths)

    def release(self, row: int) -> None: ...


class ReadsHiddenStates(Silent):
    wants_hidden_states = True


class Recorded:
    """Proposes the next tokens of the model's own answers, with random tokens among them."""

    def __init__(self, answers: dict[tuple[int, ...], Sequence[int]], seed: int = 1) -> None:
        self._answers = answers
        self._draw = random.Random(seed)
        self.live: dict[int, Sequence[int]] = {}
        self.batches: list[int] = []

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        assert row not in self.live
        self.live[row] = self._answers.get(tuple(source_ids), source_ids)

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        self.batches.append(len({path.row for path in paths}))
        return [self._tree(path) for path in paths]

    def _tree(self, path: Path) -> DraftTree:
        answer = self.live[path.row]
        token_ids = list(answer[len(path.token_ids) :][:6])
        count = len(token_ids)
        log_probs = [-0.1 * (i + 1) for i in range(count)]
        junk = [self._draw.randrange(tiny.VOCABULARY.size) for _ in range(3)]
        parents = [*range(-1, count - 1), -1, -1, count - 1]
        return DraftTree([*token_ids, *junk], parents, [*log_probs, -1.0, -2.0, -3.0])

    def release(self, row: int) -> None:
        del self.live[row]
