"""A small draft model: it extends the paths of all queries in one batch."""

from collections.abc import Sequence
from itertools import chain

from molspec import _native
from molspec.decoding import Drafter, DraftTree, Path
from molspec.decoding.drafter import EncoderDrafter, propose
from molspec.drafting.gamma import Gamma
from molspec.drafting.session_drafter import Ids, Opened, SessionDrafter
from molspec.text.aligned import common_length


class ModelDrafter(SessionDrafter):
    """Extends every path token by token; see `SessionDrafter`."""

    _paths: _native.Continuations

    def __init__(
        self,
        opened: Opened,
        native: _native.Continuations,
        gamma: Gamma,
        inner: Drafter | None,
        guess: _native.GuessModel,
    ) -> None:
        super().__init__(opened, native)
        self._gamma = gamma
        self._inner, self._guess = inner, guess
        #: The last drafts, by query and path.
        self._last: dict[tuple[int, tuple[int, ...]], list[list[int]]] = {}

    def start(self, row: int, source_ids: Ids) -> None:
        """Announce a query, which `read` begins."""
        super().start(row, source_ids)
        if self._inner is not None:
            self._inner.start(row, source_ids)

    def read(self, row: int, source_ids: Ids, encoder_ids: Ids) -> None:
        """Begin a query with the target model's encoder ids."""
        super().read(row, source_ids, encoder_ids)
        if isinstance(self._inner, EncoderDrafter):
            self._inner.read(row, source_ids, encoder_ids)

    def release(self, row: int) -> None:
        """End a query."""
        super().release(row)
        if not self._rows:
            self._gamma.pause()
        if self._inner is not None:
            self._inner.release(row)

    def propose(self, paths: Sequence[Path]) -> list[DraftTree]:
        """Draft after every path."""
        self._gamma.begin()
        self._look_back(paths)
        trees, most = self._drafted(paths, self._gamma.count())
        self._remember(paths, trees)
        self._gamma.end(most)
        return trees

    def _run(self) -> None:
        done = False
        while not done:
            self._paths.plan(self._proposed())
            done = self._paths.advance(self._step())

    def _proposed(self) -> Sequence[_native.AdmittedTree]:
        """The trees of the inner drafter, if there is one, for this model's own paths."""
        if self._inner is None:
            return []
        paths = [
            Path(self._names[path.row], path.token_ids, path.log_prob, sampler=path.sampler)
            for path in self._paths.paths()
        ]
        return propose(self._inner, paths, self._guess)

    def _remember(self, paths: Sequence[Path], trees: Sequence[DraftTree]) -> None:
        self._last = {}
        for path, tree in zip(paths, trees, strict=True):
            if drafted := _chain(tree):
                key = path.row, tuple(path.token_ids)
                self._last.setdefault(key, []).append(drafted)

    def _look_back(self, paths: Sequence[Path]) -> None:
        """Report to gamma how many of the last drafts were accepted."""
        longest = max(map(len, chain.from_iterable(self._last.values())), default=-1)
        for path in paths:
            token_ids = tuple(path.token_ids)
            for begin in range(len(token_ids) - 1, max(-1, len(token_ids) - 2 - longest), -1):
                chains = self._last.get((path.row, token_ids[:begin]))
                if chains is not None:
                    going = token_ids[begin:-1]
                    best = max(chains, key=lambda drafted: common_length(drafted, going))
                    self._gamma.verified(common_length(best, going), len(best))
                    break


def _chain(tree: DraftTree) -> list[int]:
    """The tokens of the tree's longest path that begins with its first node."""
    drafted, last = [], -1
    for node, (token_id, parent) in enumerate(zip(tree.token_ids, tree.parents, strict=True)):
        if parent == last:
            drafted.append(token_id)
            last = node
    return drafted
