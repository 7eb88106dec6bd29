"""Drafts for a module without a cache: only while the passes that they save pay for their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from molspec.decoding import Drafter, DraftTree, Path
from molspec.drafting import AnyConfiguration, DraftContext

#: Columns that drafts may cost beyond what they save: a share of those that decoding needs without
#: drafts, and as many as a few calls cost in any case.
_SHARE, _ANYWAY = 0.03, 48


@dataclass(frozen=True)
class PayingDraft:
    """The drafts of a drafter, while they pay.

    A module without a cache evaluates every path of a tree as a row from its first token. Trees
    that the model does not confirm then cost several times the plain loop.
    """

    drafter: AnyConfiguration

    def build(self, context: DraftContext) -> PayingDrafter:
        """Build the drafter."""
        return PayingDrafter(context.build(self.drafter))


class PayingDrafter:
    """Counts the columns that drafts cost and save, and drafts while they lose few of them.

    A tree costs the columns of its paths' rows, less the row that is evaluated without it. Each
    token of it that the model confirms saves a row.
    """

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._needed = self._lost = 0
        #: For each query, the tokens of its paths and what was drafted after them.
        self._drafted: defaultdict[int, list[tuple[list[int], DraftTree]]] = defaultdict(list)

    def start(self, row: int, source_ids: Sequence[int]) -> None:
        """Begin a query."""
        self._drafter.start(row, source_ids)

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft after every path for which there are columns left to lose."""
        for path in paths:
            self._settle(path)
        for path in paths:
            self._drafted.pop(path.row, None)
        self._needed += sum(len(path.token_ids) + 1 for path in paths)
        return [self._tree(path) for path in paths]

    def _tree(self, path: Path) -> DraftTree:
        if self._lost > _ANYWAY + _SHARE * self._needed:
            return DraftTree([], [], [])
        (tree,) = self._drafter.propose([path])
        self._lost += _columns(tree, len(path.token_ids) + 1)
        self._drafted[path.row].append((path.token_ids, tree))
        return tree

    def release(self, row: int) -> None:
        """End a query."""
        self._drafted.pop(row, None)
        self._drafter.release(row)

    def _settle(self, path: Path) -> None:
        """Count the drafted tokens that the path has now; a row of their length is saved each."""
        for before, tree in self._drafted.get(path.row, ()):
            if path.token_ids[: len(before)] != before:
                continue
            node = -1
            for length, token_id in enumerate(path.token_ids[len(before) :], len(before) + 1):
                if (node := tree.child(node, token_id)) < 0:
                    break
                self._lost -= length + 1
            return


def _columns(tree: DraftTree, length: int) -> int:
    """Columns of the rows of a tree after a path of this length, less those of its own row."""
    parents = tree.parents
    depths: list[int] = []
    for parent in parents:
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
    leaves = set(range(len(parents))).difference(parents)
    return max(0, sum(length + depths[leaf] for leaf in leaves) - length)
