"""A small draft model: it extends the paths of all queries in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path as FilePath
from typing import Any, Literal

from molspec import _native
from molspec.common.fields import check_counts
from molspec.decoding import Drafter, DraftTree, EncoderDrafter, Path, propose, wants_hidden_states
from molspec.drafting.build import DraftContext, read_drafter
from molspec.drafting.gamma import Gamma
from molspec.drafting.merging import Merged
from molspec.drafting.options import AnyDrafter, LookAhead, OwnDraft, resolve
from molspec.drafting.session_drafter import Ids, Opened, SessionDrafter
from molspec.engine.devices import Engine, by_name, make_engine
from molspec.text import Vocabulary
from molspec.text.aligned import common_length


@dataclass(frozen=True)
class ModelDraft:
    """A small model drafts for the target model (Leviathan et al. 2023), on the CPU.

    The target model verifies its drafts, so answers do not change. For samples, both models use the
    same noise.

    model: the name or path of a model with the target model's vocabulary; for `molspec.decode`, a
        module of any kind that it takes.
    gamma: tokens drafted before each verification; "adaptive" chooses it from the measured
        acceptance and cost.
    drafter: the drafter of the small model: "none", "tree", or a ModelDraft of an even smaller one.
    width: likeliest tokens to propose at each position. More than one helps exact beams only; their
        default is the width of the beam.
    dtype: of its matrices, as for `molspec.load`.

    Raises ValueError, naming the option. `build` raises it if the model cannot draft for the
    target model.
    """

    model: Any
    gamma: int | Literal["adaptive"] = "adaptive"
    drafter: AnyDrafter = "none"
    width: int | None = None
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.gamma != "adaptive":
            if isinstance(self.gamma, str):
                raise ValueError(
                    f"gamma is {self.gamma!r}: expected 'adaptive' or a whole number of at least 1"
                )
            check_counts(self, gamma=1000)
        if self.width is not None:
            check_counts(self, width=1000)
        inner = [resolve(self.drafter)]
        for each in inner:
            if isinstance(each, LookAhead | OwnDraft):
                raise ValueError(
                    f"drafter is {each!r}: expected one that drafts after a single path"
                )
            if isinstance(each, Merged):
                inner += each.parts

    def build(self, context: DraftContext) -> ModelDrafter:
        """Build the drafter.

        Raises ValueError, naming both, if the vocabularies differ, CheckpointError if there is no
        such model.
        """
        if context.open_module is not None and not isinstance(self.model, str | FilePath):
            session, longest = context.open_module(self.model)
            opened = Opened(session, context.query_count, max_positions=longest)
        else:
            vocabulary, engine = self._loaded
            context.check_vocabulary(str(self.model), vocabulary.tokens)
            opened = Opened.of(engine, vocabulary, context.query_count)
        drafts, inner = replace(context, width=1).parts(resolve(self.drafter))
        if wants_hidden_states(inner):
            raise ValueError(
                f"drafter is {self.drafter!r}: expected one that needs no hidden states, which a "
                "draft model does not give"
            )
        native = _native.Continuations(
            row_count=context.query_count,
            guess_model=context.guess,
            drafts=drafts,
            width=self.width or context.width,
        )
        gamma = Gamma(None if self.gamma == "adaptive" else self.gamma)
        return ModelDrafter(opened, native, gamma, inner, context.guess)

    @cached_property
    def _loaded(self) -> tuple[Vocabulary, Engine]:
        """The draft model, read once for all calls with this drafter."""
        if not isinstance(self.model, str | FilePath):
            kind = type(self.model).__name__
            raise ValueError(f"model is a {kind}: expected the name or the path of a model")
        checkpoint = read_drafter(self.model)
        engine = make_engine(checkpoint.spec, checkpoint.weights, "cpu", by_name(self.dtype))
        return checkpoint.vocabulary, engine


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

    def read(self, row: int, source_ids: Ids, encoder_ids: Ids) -> None:
        """Begin a query with the target model's encoder ids."""
        super().read(row, source_ids, encoder_ids)
        if self._inner is not None:
            self._inner.start(row, source_ids)
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

    def _proposed(self) -> Sequence[DraftTree]:
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
